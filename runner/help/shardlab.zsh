#compdef shardlab
# Completes the words of shardlab in zsh: source <(shardlab completion zsh), or this file as _shardlab in a folder
# of $fpath.

_shardlab() {
  local -a before answer candidates
  local program=${(Q)words[1]} line word about
  program=${program/#\~/$HOME}
  if (( CURRENT > 2 )); then
    before=("${(@Q)words[2,CURRENT-1]}")
  fi
  answer=("${(@f)$("$program" __complete "${before[@]}" "${(Q)PREFIX}" 2> /dev/null)}")
  for line in "${answer[@]}"; do
    case $line in
      :words | :files | '') ;;
      *)
        word=${line%%$'\t'*}
        about=${line#$word}
        # _describe takes what stands behind the first colon as the description.
        candidates+=("${word//:/\\:}${about/#$'\t'/:}")
        ;;
    esac
  done
  if (( ${#candidates} )); then
    _describe -t values 'word of shardlab' candidates
  fi
  if [[ ${answer[-1]} == :files ]]; then
    compset -P '--*='
    _files
  fi
}

if [[ ${funcstack[1]} == _shardlab ]]; then
  _shardlab "$@"
else
  compdef _shardlab shardlab
fi
