import { h, fill } from './dom.js';
export const title = 'Explain';
export function mount(main, ctx) {
  fill(main, h('h1', {}, title));
  ctx.ready();
}
