// The moving parts of a report: browsers (sort, filter, page, open a row) and charts. No framework, no network; the data
// stands in the page as JSON. Text from the data reaches the page as text nodes only, never as markup.
(() => {
  'use strict';

  const data = JSON.parse(document.getElementById('report-data').textContent);
  const ROWS_PER_PAGE = 200;
  const VERDICT_SYMBOLS = {better: '\u25b2', worse: '\u25bc', equal: '=', undecided: '?', wrong: '\u2717'};
  const VERDICT_ORDER = ['wrong', 'worse', 'undecided', 'better', 'equal'];

  // element('td', {class: 'num'}, 'text', child, ...)
  const element = (tag, attributes, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
    }
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  };

  const grouped = (text) => {
    const [whole, part] = text.split('.');
    const commas = whole.replace(/\B(?=(\d{3})+(?!\d))/g, ',');
    return part === undefined ? commas : commas + '.' + part;
  };
  const fixed = (number, digits) => grouped(number.toFixed(digits));
  const counted = (number, one, many) => `${fixed(number, 0)} ${number === 1 ? one : many}`;

  // Long names may break after their separators rather than anywhere; a number and an arrow break nowhere.
  const breakable = (text) => text.split(/(?<=[/_=])|(?<=[.,])(?!\d)|(?=->)|(?<=->)/).flatMap((part, index) => {
    if (part === '->') return [element('span', {class: 'arrow'}, part)];
    return index > 0 ? [element('wbr'), part] : [part];
  });
  // Units stay with what they measure.
  const unbroken = (title) => title.replaceAll(', ', ',\u00a0');

  // ---- browsers

  const isNumeric = (kind) => ['number', 'signed', 'count', 'bytes'].includes(kind);

  class Browser {
    constructor(table) {
      this.table = table;
      this.root = document.getElementById('browser-' + table.id);
      this.scroll = this.root.querySelector('.scroll');
      this.body = this.root.querySelector('tbody');
      this.order = null;  // {column, isFalling}
      this.page = 0;
      this.choices = table.facets.map(() => null);
      this.words = '';
      this.found = table.rows.map((_, place) => place);
      this.haystack = null;
      this.buildControls();
      this.buildHead();
      this.body.addEventListener('click', (event) => this.onClick(event));
      this.body.addEventListener('keydown', (event) => this.onKey(event));
      this.update();
    }

    // A cell's value and note, unpacked.
    unpack(packed) {
      return Array.isArray(packed) ? packed : [packed, null];
    }

    text(place) {
      return this.table.texts[place];
    }

    buildControls() {
      const {table} = this;
      const controls = element('div', {class: 'controls', role: 'group', 'aria-label': `Filter the ${table.many}`});
      this.selects = table.facets.map((facet, index) => {
        const counts = facet.options.map(() => 0);
        for (const row of table.rows) counts[row[1][index]]++;
        // A choice keeps the later options as well, and the first would keep everything.
        if (facet.keepsLater) {
          for (let place = counts.length - 2; place >= 0; place--) counts[place] += counts[place + 1];
          counts[0] = 0;
        }
        const select = element('select', {'data-facet': facet.title}, element('option', {value: ''}, 'all'));
        facet.options.forEach((option, place) => {
          if (counts[place] === 0) return;
          select.append(element('option', {value: place}, `${option} (${fixed(counts[place], 0)})`));
        });
        select.addEventListener('change', () => {
          this.choices[index] = select.value === '' ? null : Number(select.value);
          this.filter();
        });
        controls.append(element('label', {}, facet.title, select));
        return select;
      });
      this.search = element('input', {type: 'search', placeholder: 'any of its words', spellcheck: 'false'});
      this.search.addEventListener('input', () => {
        this.words = this.search.value.trim().toLowerCase();
        this.filter();
      });
      this.reset = element('button', {type: 'button'}, 'Show all');
      this.reset.addEventListener('click', () => {
        this.choices.fill(null);
        this.selects.forEach((select) => { select.value = ''; });
        this.search.value = this.words = '';
        this.order = null;
        this.filter();
      });
      controls.append(element('label', {}, 'contains', this.search), this.reset);

      this.count = element('p', {role: 'status', 'aria-live': 'polite'});
      this.previous = element('button', {type: 'button', 'aria-label': 'Previous page'}, '\u2190');
      this.next = element('button', {type: 'button', 'aria-label': 'Next page'}, '\u2192');
      this.position = element('span');
      this.previous.addEventListener('click', () => this.turn(-1));
      this.next.addEventListener('click', () => this.turn(1));
      this.pager = element('div', {class: 'pager'}, this.previous, this.position, this.next);
      this.scroll.before(controls, element('div', {class: 'status'}, this.count, this.pager));
    }

    buildHead() {
      const {table} = this;
      const columns = element('colgroup');
      for (const width of this.widths()) columns.append(element('col', {style: `width:${width}rem`}));
      this.table.element = this.root.querySelector('table');
      this.table.element.querySelector('caption').after(columns);
      const row = element('tr');
      this.heads = table.columns.map((column, index) => {
        const arrow = element('span', {class: 'sorted', 'aria-hidden': 'true'});
        // Before a title on the right, after one on the left: an arrow moves no title out of its column's line.
        const title = unbroken(column.title);
        const label = isNumeric(column.kind) ? [arrow, title] : [title, arrow];
        const button = element('button', {type: 'button', title: 'Sort by this column'}, ...label);
        const head = element('th', {scope: 'col', class: isNumeric(column.kind) ? 'num' : null}, button);
        button.addEventListener('click', () => this.sortBy(index));
        row.append(head);
        return {head, arrow};
      });
      this.root.querySelector('thead').replaceChildren(row);
    }

    // Columns keep their widths on every page: numbers what they need, text what it mostly holds as far as there is room.
    widths() {
      const FIXED = {verdict: 7.6, signed: 5.9, bytes: 5.4, number: 6.4, count: 5};
      // A title's words, a unit with the last of them, stay whole.
      const ofTitle = ({title}) => 1.9 + 0.5 * Math.max(...unbroken(title).split(' ').map((word) => word.length));
      const wanted = this.table.columns.map((column, index) =>
        (column.kind in FIXED ? Math.max(FIXED[column.kind], ofTitle(column)) : this.textWidth(index)));
      // Where the room is short the wide columns give way, not the narrow ones.
      const NARROW = 8;
      const kept = wanted.map((width, index) => (this.table.columns[index].kind in FIXED ? width : Math.min(width, NARROW)));
      const sum = (widths) => widths.reduce((total, width) => total + width, 0);
      const room = Math.max(52, this.scroll.clientWidth / 16) - sum(kept);
      const share = Math.max(0, Math.min(1, room / (sum(wanted) - sum(kept) || 1)));
      return wanted.map((width, index) => kept[index] + share * (width - kept[index]));
    }

    textWidth(column) {
      const lengths = this.table.rows.slice(0, 300).map((row) => {
        const [value] = this.unpack(row[0][column]);
        return value === null ? 0 : this.text(value).length;
      }).sort((left, right) => left - right);
      const usual = lengths[Math.floor(lengths.length * 0.9)] || 0;
      return Math.min(15, Math.max(5, 1.7 + 0.46 * usual));
    }

    // Once upwards, once downwards (numbers the other way round), then back to the report's own order.
    sortBy(column) {
      const startsFalling = isNumeric(this.table.columns[column].kind);
      if (!this.order || this.order.column !== column) {
        this.order = {column, isFalling: startsFalling};
      } else if (this.order.isFalling === startsFalling) {
        this.order = {column, isFalling: !startsFalling};
      } else {
        this.order = null;
      }
      this.filter();
    }

    sortKey(row, column) {
      const [value] = this.unpack(row[0][column]);
      if (value === null) return null;
      const {kind} = this.table.columns[column];
      if (isNumeric(kind)) return value;
      return kind === 'verdict' ? VERDICT_ORDER.indexOf(this.text(value)) : this.text(value);
    }

    // All the words of a row, for the search; made when first needed.
    wordsOf(place) {
      if (!this.haystack) this.haystack = new Array(this.table.rows.length);
      if (this.haystack[place] === undefined) {
        const [cells, , facts] = this.table.rows[place];
        const words = facts ? facts.filter((_, index) => index % 3 === 1).map((fact) => this.text(fact)) : [];
        cells.forEach((cell, column) => {
          const [value, note] = this.unpack(cell);
          if (value !== null && !isNumeric(this.table.columns[column].kind)) words.push(this.text(value));
          if (note !== null) words.push(this.text(note));
        });
        this.haystack[place] = words.join('\n').toLowerCase();
      }
      return this.haystack[place];
    }

    filter() {
      const {rows} = this.table;
      this.found = [];
      rows.forEach((row, place) => {
        const isChosen = this.choices.every((choice, index) => choice === null || row[1][index] === choice ||
          (this.table.facets[index].keepsLater && row[1][index] > choice));
        if (isChosen && (this.words === '' || this.wordsOf(place).includes(this.words))) this.found.push(place);
      });
      if (this.order) {
        const {column, isFalling} = this.order;
        const keys = new Map(this.found.map((place) => [place, this.sortKey(rows[place], column)]));
        this.found.sort((left, right) => {
          const a = keys.get(left);
          const b = keys.get(right);
          if (a === b) return left - right;
          if (a === null) return 1;  // what has no value comes last, whichever way
          if (b === null) return -1;
          return (a < b ? -1 : 1) * (isFalling ? -1 : 1);
        });
      }
      this.page = 0;
      this.update();
    }

    turn(by) {
      this.page += by;
      this.update();
      this.root.scrollIntoView({block: 'start'});
    }

    update() {
      const {table, found} = this;
      const first = this.page * ROWS_PER_PAGE;
      const shown = found.slice(first, first + ROWS_PER_PAGE);
      const pages = Math.max(1, Math.ceil(found.length / ROWS_PER_PAGE));
      this.body.replaceChildren(...shown.map((place) => this.row(place)));
      if (shown.length === 0) {
        this.body.append(element('tr', {}, element('td', {colspan: table.columns.length, class: 'empty'},
          `No ${table.one} matches these filters.`)));
      }
      const isFiltered = found.length < table.rows.length;
      const range = pages > 1 ? `${fixed(first + 1, 0)}\u2013${fixed(first + shown.length, 0)} of ` : '';
      const order = this.order ? `sorted by ${table.columns[this.order.column].title}` : table.order;
      this.count.textContent = range + counted(found.length, table.one, table.many) +
        (isFiltered ? ` (of ${fixed(table.rows.length, 0)})` : '') + `; ${order}`;
      this.pager.hidden = pages === 1;
      this.pager.style.display = pages === 1 ? 'none' : '';
      this.position.textContent = `page ${this.page + 1} of ${pages}`;
      this.previous.disabled = this.page === 0;
      this.next.disabled = this.page === pages - 1;
      this.reset.disabled = !isFiltered && !this.order;
      this.heads.forEach(({head, arrow}, column) => {
        const isSorted = this.order !== null && this.order.column === column;
        head.setAttribute('aria-sort', !isSorted ? 'none' : this.order.isFalling ? 'descending' : 'ascending');
        arrow.textContent = !isSorted ? '' : this.order.isFalling ? '\u2193' : '\u2191';
      });
    }

    value(column, packed, sizes) {
      const [value, note] = this.unpack(packed);
      const parts = [];
      if (value === null) {
        parts.push(element('span', {class: 'none'}, '\u2013'));
      } else if (column.kind === 'bytes') {
        parts.push(sizes[value]);
      } else if (column.kind === 'signed') {
        parts.push((value > 0 ? '+' : '') + fixed(value, column.digits));
      } else if (isNumeric(column.kind)) {
        parts.push(fixed(value, column.digits));
      } else if (column.kind === 'code') {
        parts.push(element('code', {}, ...breakable(this.text(value))));
      } else if (column.kind === 'name') {
        parts.push(element('code', {class: 'name'}, this.text(value)));
      } else if (column.kind === 'verdict') {
        const verdict = this.text(value);
        parts.push(element('span', {class: 'verdict ' + verdict},
          element('span', {'aria-hidden': 'true'}, VERDICT_SYMBOLS[verdict]), ' ' + verdict));
      } else {
        parts.push(this.text(value));
      }
      if (note !== null) parts.push(element('span', {class: 'note'}, ...breakable(this.text(note))));
      return parts;
    }

    cell(column, packed) {
      return element('td', {class: isNumeric(column.kind) ? 'num' : null},
        ...this.value(column, packed, this.table.sizes));
    }

    row(place) {
      const {table} = this;
      const row = element('tr', {class: 'row', 'data-place': place});
      table.columns.forEach((column, index) => row.append(this.cell(column, table.rows[place][0][index])));
      // The first cell opens the row: a button, so that keyboards and screen readers find it.
      const turn = element('span', {class: 'turn', 'aria-hidden': 'true'}, '\u25b8');
      const opener = element('button', {type: 'button', class: 'opener', 'aria-expanded': 'false'}, turn);
      opener.append(...row.firstChild.childNodes);
      row.firstChild.append(opener);
      return row;
    }

    detail(place) {
      const {table} = this;
      const [, , facts, tables] = table.rows[place];
      const cell = element('td', {colspan: table.columns.length});
      if (facts) {
        const list = element('dl', {class: 'facts'});
        for (let i = 0; i < facts.length; i += 3) {
          const text = this.text(facts[i + 1]);
          list.append(element('dt', {}, this.text(facts[i])),
            element('dd', {}, facts[i + 2] === 1 ? element('code', {}, text) : text));
        }
        cell.append(list, ...tables.map((rows, index) => this.detailTable(table.details[index], rows)).filter(Boolean));
      } else {
        cell.append(element('p', {class: 'cut'}, `What stands behind this ${table.one} is in report.json.`));
      }
      return element('tr', {class: 'detail'}, cell);
    }

    detailTable({caption, columns}, rows) {
      if (rows.length === 0) return null;
      const head = element('tr');
      for (const column of columns) {
        head.append(element('th', {scope: 'col', class: isNumeric(column.kind) ? 'num' : null}, unbroken(column.title)));
      }
      const body = element('tbody');
      for (const packed of rows) {
        body.append(element('tr', {}, ...columns.map((column, index) => this.cell(column, packed[index]))));
      }
      return element('div', {class: 'scroll', role: 'region', tabindex: '0', 'aria-label': caption},
        element('table', {}, element('caption', {}, element('span', {}, caption)), element('thead', {}, head), body));
    }

    toggle(row) {
      const opener = row.querySelector('.opener');
      const isOpen = row.classList.toggle('open');
      opener.setAttribute('aria-expanded', String(isOpen));
      opener.querySelector('.turn').textContent = isOpen ? '\u25be' : '\u25b8';
      if (isOpen) {
        row.after(this.detail(Number(row.dataset.place)));
      } else {
        row.nextElementSibling.remove();
      }
    }

    onClick(event) {
      const row = event.target.closest('tr.row');
      // Selecting text in a row is not a click on it.
      if (row && String(window.getSelection()) === '') this.toggle(row);
    }

    // Enter and Space press the button by themselves; the arrows walk the rows.
    onKey(event) {
      const row = event.target.closest('tr.row');
      if (!row || (event.key !== 'ArrowDown' && event.key !== 'ArrowUp')) return;
      let next = row;
      do {
        next = event.key === 'ArrowDown' ? next.nextElementSibling : next.previousElementSibling;
      } while (next && !next.classList.contains('row'));
      if (!next) return;
      event.preventDefault();
      next.querySelector('.opener').focus();
    }
  }

  // ---- charts

  const DASHES = [[], [6, 4], [2, 3], [10, 4, 2, 4], [4, 2], [12, 4], [1, 2], [8, 2, 2, 2, 2, 2]];
  const POINTS = ['circle', 'rect', 'triangle', 'rectRot', 'cross', 'star', 'crossRot', 'rectRounded'];
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();

  // Bars differ by hatching as well as by colour.
  const pattern = (ink, index) => {
    const size = 8;
    const tile = element('canvas', {width: size, height: size});
    const pen = tile.getContext('2d');
    pen.strokeStyle = pen.fillStyle = ink;
    if (index === 0) return ink;
    pen.globalAlpha = 0.22;
    pen.fillRect(0, 0, size, size);
    pen.globalAlpha = 1;
    pen.lineWidth = 1.6;
    const strokes = {
      1: [[-2, 6, 2, 10], [-2, 10, 10, -2], [6, -2, 10, 2].map((v) => v), [6, 10, 10, 6]],
      2: [[0, 4, 8, 4]],
      3: [],
      4: [[-2, -2, 10, 10], [-2, 6, 2, 10], [6, -2, 10, 2]],
      5: [[4, 0, 4, 8]],
      6: [[0, 4, 8, 4], [4, 0, 4, 8]],
      7: [[-2, -2, 10, 10], [-2, 10, 10, -2]],
    }[index] || [];
    for (const [x0, y0, x1, y1] of strokes) {
      pen.beginPath();
      pen.moveTo(x0, y0);
      pen.lineTo(x1, y1);
      pen.stroke();
    }
    if (index === 3) {
      pen.beginPath();
      pen.arc(4, 4, 1.4, 0, 2 * Math.PI);
      pen.fill();
    }
    return pen.createPattern(tile, 'repeat');
  };

  // A verdict keeps its colour and hatch in every chart.
  const barStyle = (name, index) => {
    const verdict = ['better', 'worse', 'equal', 'undecided'].indexOf(name);
    return verdict >= 0 ? {ink: color(name), hatch: verdict} : {ink: color(`series-${index % 8 + 1}`), hatch: index % 8};
  };

  const BYTE_UNITS = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
  const powerOfTen = (value) => Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-9;
  const bytesTick = (value) => {
    if (!powerOfTen(value) || value < 1) return null;
    const power = Math.round(Math.log10(value));
    const unit = Math.min(Math.floor(power / 3), BYTE_UNITS.length - 1);
    return `${10 ** (power - 3 * unit)} ${BYTE_UNITS[unit]}`;
  };
  const priceTick = (value) => {
    if (!powerOfTen(value)) return null;
    return value >= 1 ? grouped(String(Math.round(value))) : String(Number(value.toPrecision(1)));
  };

  const axisTitle = (text, ink) => ({display: true, text, color: ink});

  const linesChart = (chart) => {
    const [ink, grid] = [color('soft'), color('line')];
    const onLog = (value) => value !== null && value > 0;
    return {
      type: 'line',
      data: {
        datasets: chart.series.map((series, index) => ({
          label: series.name,
          data: chart.x.map((x, place) => ({x, y: onLog(series.values[place]) && x > 0 ? series.values[place] : null})),
          borderColor: color(`series-${index % 8 + 1}`),
          backgroundColor: color(`series-${index % 8 + 1}`),
          borderDash: DASHES[index % 8],
          borderWidth: index === 0 ? 4 : 2,
          order: chart.series.length - index,  // the first below the others: where they agree both are seen
          pointStyle: POINTS[index % 8],
          pointRadius: chart.x.length > 24 ? 1.6 : 2.6,
          pointHoverRadius: 5,
        })),
      },
      options: {
        interaction: {mode: 'index', intersect: false},
        scales: {
          x: {
            type: 'logarithmic',
            title: axisTitle(chart.xTitle, ink),
            grid: {color: grid, drawBorder: false},
            ticks: {color: ink, callback: bytesTick, maxRotation: 0, autoSkip: true, autoSkipPadding: 14},
          },
          y: {
            type: 'logarithmic',
            title: axisTitle(chart.yTitle, ink),
            grid: {color: grid, drawBorder: false},
            ticks: {color: ink, callback: priceTick},
          },
        },
        plugins: {
          tooltip: {
            callbacks: {
              title: (items) => (items.length > 0 ? chart.labels[items[0].dataIndex] : ''),
              label: (item) => `${item.dataset.label}: ${fixed(item.parsed.y, 2)} us`,
            },
          },
        },
      },
    };
  };

  // "371.8 MB", with as many digits as tell the ticks apart.
  const evenBytesTick = (value, index, ticks) => {
    const far = Math.max(...ticks.map((tick) => Math.abs(tick.value)), 1);
    const power = Math.min(Math.floor(Math.log10(far) / 3), BYTE_UNITS.length - 1);
    const step = ticks.length > 1 ? Math.abs(ticks[1].value - ticks[0].value) / 1000 ** power : 1;
    const digits = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));
    return `${fixed(value / 1000 ** power, digits)} ${BYTE_UNITS[power]}`;
  };
  const evenTick = (value, index, ticks) => {
    const step = ticks.length > 1 ? Math.abs(ticks[1].value - ticks[0].value) : 1;
    return fixed(value, Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)));
  };

  // Even axes, from 0 unless the chart says otherwise: what holds from one x to the next.
  const stepsChart = (chart) => {
    const steps = linesChart(chart);
    for (const dataset of steps.data.datasets) Object.assign(dataset, {stepped: 'before', pointRadius: 4, borderWidth: 2});
    Object.assign(steps.options.scales.x, {type: 'linear', grace: '4%', beginAtZero: chart.fromZero});
    Object.assign(steps.options.scales.y, {type: 'linear', grace: '8%', beginAtZero: chart.fromZero});
    steps.options.scales.x.ticks.callback = evenBytesTick;
    steps.options.scales.y.ticks.callback = evenTick;
    return steps;
  };

  // Marks of eight shapes over the diagonal on which a prediction is right.
  const pointsChart = (chart) => {
    const [ink, grid] = [color('soft'), color('line')];
    const all = chart.series.flatMap((series) => [...series.x, ...series.values]).filter((value) => value > 0);
    const ends = [Math.min(...all), Math.max(...all)];
    const axis = (title) => ({
      type: 'logarithmic',
      title: axisTitle(title, ink),
      grid: {color: grid, drawBorder: false},
      ticks: {color: ink, callback: priceTick, maxRotation: 0, autoSkip: true, autoSkipPadding: 14},
    });
    const marks = chart.series.map((series, index) => ({
      label: series.name,
      data: series.x.map((x, place) => ({x, y: series.values[place]})),
      showLine: false,
      borderColor: color(`series-${index % 8 + 1}`),
      backgroundColor: color(`series-${index % 8 + 1}`),
      pointStyle: POINTS[index % 8],
      pointRadius: 2.6,
      pointHoverRadius: 5,
    }));
    return {
      type: 'scatter',
      data: {
        datasets: [...marks, {
          label: 'as measured',
          data: ends.map((value) => ({x: value, y: value})),
          showLine: true,
          borderColor: color('ink'),
          borderWidth: 1.2,
          borderDash: [5, 4],
          pointRadius: 0,
        }],
      },
      options: {
        scales: {x: axis(chart.xTitle), y: axis(chart.yTitle)},
        plugins: {
          tooltip: {
            callbacks: {
              label: (item) => `${item.dataset.label}: measured ${fixed(item.parsed.x, 2)} us, predicted ${fixed(item.parsed.y, 2)} us`,
            },
          },
        },
      },
    };
  };

  const barsChart = (chart) => {
    const [ink, grid] = [color('soft'), color('line')];
    const isStacked = chart.kind === 'stacked';
    return {
      type: 'bar',
      data: {
        labels: chart.labels,
        datasets: chart.series.map((series, index) => {
          const style = barStyle(series.name, index);
          return {
            label: series.name,
            data: series.values,
            backgroundColor: pattern(style.ink, style.hatch),
            borderColor: style.ink,
            borderWidth: 1,
            borderSkipped: false,
            maxBarThickness: 26,
          };
        }),
      },
      options: {
        indexAxis: 'y',
        interaction: {mode: 'index', axis: 'y', intersect: false},
        scales: {
          x: {
            stacked: isStacked,
            beginAtZero: true,
            title: axisTitle(chart.yTitle, ink),
            grid: {color: grid, drawBorder: false},
            ticks: {color: ink, precision: 0, callback: (value) => fixed(value, 0)},
          },
          y: {stacked: isStacked, grid: {display: false}, ticks: {color: ink, autoSkip: false}},
        },
        plugins: {tooltip: {callbacks: {label: (item) => `${item.dataset.label}: ${fixed(item.parsed.x, 0)}`}}},
      },
    };
  };

  // ---- legends: buttons beside the chart, so that keyboards and screen readers find what a canvas hides

  const SVG = 'http://www.w3.org/2000/svg';
  const shape = (name, attributes) => {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  };
  const MARKS = {
    circle: 'M16 6m-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0',
    rect: 'M13 3h6v6h-6z',
    rectRounded: 'M13 3h6v6h-6z',
    triangle: 'M16 2.4l3.6 6.6h-7.2z',
    rectRot: 'M16 2l4 4l-4 4l-4 -4z',
    cross: 'M16 2v8M12 6h8',
    crossRot: 'M13 3l6 6M19 3l-6 6',
    star: 'M16 2v8M12 6h8M13 3l6 6M19 3l-6 6',
  };

  const pointSwatch = (index) => {
    const ink = `var(--series-${index % 8 + 1})`;
    const swatch = shape('svg', {width: 32, height: 12, 'aria-hidden': 'true'});
    swatch.append(shape('path', {d: MARKS[POINTS[index % 8]], stroke: ink, fill: ink, 'stroke-width': 1.6}));
    return swatch;
  };

  const lineSwatch = (index) => {
    const ink = `var(--series-${index % 8 + 1})`;
    const swatch = shape('svg', {width: 32, height: 12, 'aria-hidden': 'true'});
    swatch.append(
      shape('path', {d: 'M0 6H32', stroke: ink, 'stroke-width': index === 0 ? 4 : 2, 'stroke-dasharray': DASHES[index % 8].join(' '), fill: 'none'}),
      shape('path', {d: MARKS[POINTS[index % 8]], stroke: ink, fill: ink, 'stroke-width': 1.6}));
    return swatch;
  };

  const barSwatch = (name, index) => {
    const {ink, hatch} = barStyle(name, index);
    const tile = element('canvas', {width: 22, height: 12, 'aria-hidden': 'true'});
    const pen = tile.getContext('2d');
    pen.fillStyle = pattern(ink, hatch);
    pen.fillRect(0, 0, 22, 12);
    pen.strokeStyle = ink;
    pen.strokeRect(0.5, 0.5, 21, 11);
    return tile;
  };

  const hidden = new Set();  // "chart/series" that a reader has switched off

  const drawLegend = (chart, drawing) => {
    const items = chart.series.map((series, index) => {
      const key = `${chart.id}/${index}`;
      const swatch = ['lines', 'steps'].includes(chart.kind) ? lineSwatch(index)
        : chart.kind === 'points' ? pointSwatch(index) : barSwatch(series.name, index);
      const button = element('button', {type: 'button', title: 'Show or hide', 'aria-pressed': String(!hidden.has(key))},
        swatch, ' ' + series.name);
      button.addEventListener('click', () => {
        if (!hidden.delete(key)) hidden.add(key);
        button.setAttribute('aria-pressed', String(!hidden.has(key)));
        drawing.setDatasetVisibility(index, !hidden.has(key));
        drawing.update();
      });
      if (hidden.has(key)) drawing.setDatasetVisibility(index, false);
      return element('li', {}, button);
    });
    document.getElementById('legend-' + chart.id).replaceChildren(...items);
    if (hidden.size > 0) drawing.update();
  };

  const drawn = new Map();

  const draw = (chart) => {
    const canvas = document.getElementById('chart-' + chart.id);
    if (!canvas) return;
    if (drawn.has(chart.id)) drawn.get(chart.id).destroy();
    const isBars = chart.kind === 'stacked' || chart.kind === 'grouped';
    if (chart.kind === 'points') canvas.parentNode.style.height = '26rem';
    if (isBars) {
      const bars = chart.labels.length * (chart.kind === 'grouped' ? Math.max(1, chart.series.length * 0.7) : 1);
      canvas.parentNode.style.height = `${Math.max(8, 4.5 + 1.9 * bars)}rem`;
    }
    const config = isBars ? barsChart(chart) :
      {points: pointsChart, steps: stepsChart, lines: linesChart}[chart.kind](chart);
    config.options.responsive = true;
    config.options.maintainAspectRatio = false;
    config.options.animation = false;
    config.options.plugins.legend = {display: false};
    const drawing = new Chart(canvas, config);
    drawn.set(chart.id, drawing);
    drawLegend(chart, drawing);
  };

  const isVisible = (chart) => {
    const canvas = document.getElementById('chart-' + chart.id);
    return canvas && canvas.closest('details:not([open])') === null;
  };
  const drawAll = () => data.charts.filter(isVisible).forEach(draw);

  // How wide a grid of devices is depends on the mesh, so the page measures it.
  const showHints = () => document.querySelectorAll('.layouts').forEach((figure) => {
    const box = figure.querySelector('.scroll');
    figure.classList.toggle('scrolls', box.scrollWidth > box.clientWidth + 1);
  });
  showHints();
  window.addEventListener('resize', showHints);

  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  Chart.defaults.font.size = 12.5;
  data.browsers.forEach((table) => new Browser(table));
  drawAll();
  document.querySelectorAll('details.more').forEach((details) => details.addEventListener('toggle', drawAll));
  // Colours are read when a chart is drawn: draw again when they change, on screen or for paper.
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll);
  window.matchMedia('print').addEventListener('change', drawAll);
  document.documentElement.dataset.ready = 'true';  // for tests: everything has been drawn
})();
