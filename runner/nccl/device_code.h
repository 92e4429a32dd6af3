// The kernels that are measured on a GPU besides those of libraries. They are PTX, which the driver
// compiles for the GPU that is present, so that the build needs no CUDA compiler.
//
//   shardlab_launch()                          nothing: what a launch costs
//   shardlab_add(a, b, out, count)             out = a + b, f32
//   shardlab_sum(a, out, count)                *out += the sum of a, f32
//   shardlab_reshuffle(in, out, columns, piece, block, count)
//                                              pieces of the columns one after the other, each of
//                                              all rows: what a shard of columns needs before an
//                                              all_to_all. block = rows * piece
// Counts, columns and pieces are in units of 16 bytes. Source: NVIDIA's PTX ISA manual.
#pragma once

namespace shardlab {

inline constexpr const char* kDeviceCode = R"ptx(
.version 7.0
.target sm_70
.address_size 64

.visible .entry shardlab_launch()
{
  ret;
}

.visible .entry shardlab_add(.param .u64 a, .param .u64 b, .param .u64 sum, .param .u64 count)
{
  .reg .pred %p<2>;
  .reg .b32 %r<5>;
  .reg .b64 %d<12>;
  .reg .f32 %f<13>;
  ld.param.u64 %d1, [a];
  ld.param.u64 %d2, [b];
  ld.param.u64 %d3, [sum];
  ld.param.u64 %d4, [count];
  cvta.to.global.u64 %d1, %d1;
  cvta.to.global.u64 %d2, %d2;
  cvta.to.global.u64 %d3, %d3;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mov.u32 %r4, %nctaid.x;
  mul.wide.u32 %d5, %r1, %r2;
  cvt.u64.u32 %d6, %r3;
  add.u64 %d5, %d5, %d6;
  mul.wide.u32 %d7, %r4, %r2;
again:
  setp.ge.u64 %p1, %d5, %d4;
  @%p1 bra done;
  shl.b64 %d8, %d5, 4;
  add.u64 %d9, %d1, %d8;
  add.u64 %d10, %d2, %d8;
  add.u64 %d11, %d3, %d8;
  ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%d9];
  ld.global.v4.f32 {%f5, %f6, %f7, %f8}, [%d10];
  add.f32 %f9, %f1, %f5;
  add.f32 %f10, %f2, %f6;
  add.f32 %f11, %f3, %f7;
  add.f32 %f12, %f4, %f8;
  st.global.v4.f32 [%d11], {%f9, %f10, %f11, %f12};
  add.u64 %d5, %d5, %d7;
  bra again;
done:
  ret;
}

.visible .entry shardlab_sum(.param .u64 a, .param .u64 sum, .param .u64 count)
{
  .reg .pred %p<3>;
  .reg .b32 %r<8>;
  .reg .b64 %d<10>;
  .reg .f32 %f<7>;
  ld.param.u64 %d1, [a];
  ld.param.u64 %d2, [sum];
  ld.param.u64 %d3, [count];
  cvta.to.global.u64 %d1, %d1;
  cvta.to.global.u64 %d2, %d2;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mov.u32 %r4, %nctaid.x;
  mul.wide.u32 %d4, %r1, %r2;
  cvt.u64.u32 %d5, %r3;
  add.u64 %d4, %d4, %d5;
  mul.wide.u32 %d6, %r4, %r2;
  mov.f32 %f5, 0f00000000;
again:
  setp.ge.u64 %p1, %d4, %d3;
  @%p1 bra fold;
  shl.b64 %d7, %d4, 4;
  add.u64 %d8, %d1, %d7;
  ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%d8];
  add.f32 %f1, %f1, %f2;
  add.f32 %f3, %f3, %f4;
  add.f32 %f1, %f1, %f3;
  add.f32 %f5, %f5, %f1;
  add.u64 %d4, %d4, %d6;
  bra again;
fold:
  mov.b32 %r5, %f5;
  shfl.sync.down.b32 %r6, %r5, 16, 31, -1;
  mov.b32 %f6, %r6;
  add.f32 %f5, %f5, %f6;
  mov.b32 %r5, %f5;
  shfl.sync.down.b32 %r6, %r5, 8, 31, -1;
  mov.b32 %f6, %r6;
  add.f32 %f5, %f5, %f6;
  mov.b32 %r5, %f5;
  shfl.sync.down.b32 %r6, %r5, 4, 31, -1;
  mov.b32 %f6, %r6;
  add.f32 %f5, %f5, %f6;
  mov.b32 %r5, %f5;
  shfl.sync.down.b32 %r6, %r5, 2, 31, -1;
  mov.b32 %f6, %r6;
  add.f32 %f5, %f5, %f6;
  mov.b32 %r5, %f5;
  shfl.sync.down.b32 %r6, %r5, 1, 31, -1;
  mov.b32 %f6, %r6;
  add.f32 %f5, %f5, %f6;
  and.b32 %r7, %r3, 31;
  setp.ne.u32 %p2, %r7, 0;
  @%p2 bra done;
  red.global.add.f32 [%d2], %f5;
done:
  ret;
}

.visible .entry shardlab_reshuffle(.param .u64 from, .param .u64 to, .param .u32 columns,
                                   .param .u32 piece, .param .u32 block, .param .u32 count)
{
  .reg .pred %p<2>;
  .reg .b32 %r<16>;
  .reg .b64 %d<7>;
  .reg .f32 %f<5>;
  ld.param.u64 %d1, [from];
  ld.param.u64 %d2, [to];
  ld.param.u32 %r1, [columns];
  ld.param.u32 %r2, [piece];
  ld.param.u32 %r3, [block];
  ld.param.u32 %r4, [count];
  cvta.to.global.u64 %d1, %d1;
  cvta.to.global.u64 %d2, %d2;
  mov.u32 %r5, %ctaid.x;
  mov.u32 %r6, %ntid.x;
  mov.u32 %r7, %tid.x;
  mov.u32 %r8, %nctaid.x;
  mad.lo.u32 %r9, %r5, %r6, %r7;
  mul.lo.u32 %r10, %r8, %r6;
again:
  setp.ge.u32 %p1, %r9, %r4;
  @%p1 bra done;
  div.u32 %r11, %r9, %r3;
  rem.u32 %r12, %r9, %r3;
  div.u32 %r13, %r12, %r2;
  rem.u32 %r14, %r12, %r2;
  mad.lo.u32 %r15, %r13, %r1, %r14;
  mad.lo.u32 %r15, %r11, %r2, %r15;
  mul.wide.u32 %d3, %r15, 16;
  add.u64 %d4, %d1, %d3;
  mul.wide.u32 %d5, %r9, 16;
  add.u64 %d6, %d2, %d5;
  ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%d4];
  st.global.v4.f32 [%d6], {%f1, %f2, %f3, %f4};
  add.u32 %r9, %r9, %r10;
  bra again;
done:
  ret;
}
)ptx";

}  // namespace shardlab
