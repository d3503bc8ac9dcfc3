// A choice of few options, as radio buttons.

import { h } from './dom.js';

export function choice(group, options, label, first, changed) {
  const all = Object.entries(options).map(([value, text]) => {
    const input = h('input', { type: 'radio', name: group, id: group + '-' + value, value, checked: value === first });
    input.addEventListener('change', changed);
    return { input, e: h('span', {}, input, h('label', { for: group + '-' + value }, text)) };
  });
  return { e: h('div.choice', { role: 'radiogroup', 'aria-label': label }, all.map((o) => o.e)), value: () => all.find((o) => o.input.checked).input.value };
}
