// Cluster: which node leads, who follows and how far behind, and what differs between nodes.

import { h, scroll, s, fill, put, name, visible, count, span, micros, moment, ago, command, quote } from './dom.js';
import { get } from './api.js';
import { node } from './app.js';

export const title = 'Cluster';

// From here on a follower counts as behind.
const BEHIND_MS = 1000;
const GAP_MS = 500;

export function mount(main, ctx) {
  const answer = h('p.answer', { role: 'status' });
  const after = h('p.after');
  const troubles = h('ul.troubles');
  const plot = h('div.nodes');
  const body = h('tbody');
  const heads = [['Node'], ['State'], ['Behind the leader'], ['Clock gap', 'num'], ['Round trip', 'num'], ['Clients'], ['Other nodes'], ['Last heard']];
  const table = h('table.wide', {}, h('caption.unseen', {}, 'Nodes'), h('thead', {}, h('tr', {}, heads.map(([t, k]) => h('th' + (k ? '.' + k : ''), { scope: 'col' }, t)))), body);
  const groups = h('section', { hidden: true });
  const change = h('section', {}, h('h2', {}, 'Last change of the leader'));
  const changed = h('p');
  change.append(changed);
  const differ = h('section', {}, h('h2', {}, 'Not equal between nodes'));
  const differBody = h('div');
  differ.append(differBody);
  const commands = h('section', {}, h('h2', {}, 'To act'));
  let whole = false;

  function alone() {
    fill(main, h('h1', {}, 'Cluster'), h('section', {}, h('p.answer.good', {}, 'This node runs alone'), h('p', {}, 'It has no data-dir, so it is not in a cluster. Its limits are in memory, and a restart forgets them.'),
      command('A node that keeps its limits across restarts', 'headgate serve --data-dir /var/lib/headgate'),
      command('One of three nodes of a cluster; each has the same secret', 'headgate serve --node-id n1 --data-dir /var/lib/headgate --peer-listen 10.0.0.1:7381 --bootstrap-expect 3 --join 10.0.0.1:7381,10.0.0.2:7381,10.0.0.3:7381 --peer-secret-file peer.secret')));
    whole = false;
    ctx.ready();
  }

  ctx.every(2000, async () => {
    if (node.now && !node.now.in_cluster) {
      if (main.dataset.ready !== 'cluster') alone();
      return;
    }
    const c = await get('v1/cluster', ctx.signal);
    if (!whole) {
      fill(main, h('h1', {}, 'Cluster'), h('section', {}, answer, after, troubles, plot), h('section', {}, h('h2', {}, 'Nodes'), scroll('Nodes', table), h('p.note', {}, 'As node ', name(c.node), ' sees it.')), groups, h('div.halves', {}, change, differ), commands);
      const me = c.members.find((m) => m.self) || c.members[0];
      const flags = `--peer ${quote(me ? me.peers : '127.0.0.1:7381')} --peer-secret-file peer.secret`;
      commands.append(command('The same in a terminal', `headgate cluster status ${flags}`), command('Hand the leadership over to the node most caught up, before you stop the leader', `headgate cluster transfer ${flags}`), command('Replace a node that is gone for good', `headgate cluster replace ${flags} --help`));
      whole = true;
    }
    draw(c);
    ctx.ready();
  });

  function draw(c) {
    const voters = c.members.filter((m) => m.voter);
    const up = voters.filter((m) => m.up);
    const down = c.members.filter((m) => !m.up);
    const need = Math.floor(voters.length / 2) + 1;
    const slow = c.members.filter(behind);
    const spare = up.length - need;
    const parts = [];
    if (!c.leader) parts.push('No node leads');
    else parts.push(`${visible(c.leader)} leads`);
    if (down.length) parts.push(`${down.map((m) => visible(m.id)).join(' and ')} ${down.length > 1 ? 'are' : 'is'} down`);
    if (slow.length) parts.push(slow.map((m) => `${visible(m.id)} is ${lag(m)}`).join(', '));
    if (!down.length && !slow.length && c.leader) parts.push(c.members.length === 1 ? 'the only node is up' : `all ${c.members.length} nodes are up and none lags`);
    put(answer, parts.join('. ').replace('leads. all', 'leads, and all').replace('leads. the', 'leads, and the') + '.');
    answer.className = 'answer ' + (!c.leader || down.length || slow.length ? 'bad' : 'good');
    put(after, !c.leader ? `${up.length} of ${voters.length} voting nodes are up as this node sees it, and ${need} are needed to elect a leader. Until then the failure policies answer.`
      : spare > 0 ? `The cluster can lose ${spare} ${down.length ? 'more ' : ''}${spare > 1 ? 'nodes' : 'node'} and still decide: ${need} of ${voters.length} must be up.` : voters.length === 1 ? 'With one voting node, nothing takes over when it fails.' : 'If one more node fails, no majority is left and the failure policies answer.');
    fill(troubles, (c.troubles || []).map((t) => h('li', {}, t)));
    plot.replaceChildren(diagram(c, plot.clientWidth || 900));
    fill(body, c.members.map((m) => h('tr', {}, h('th', { scope: 'row' }, name(m.id, 40), m.self ? h('span.muted', {}, ' asked') : null),
      h('td', {}, h('span.tag' + (m.up ? (m.leader ? '.leads' : '.ok') : '.down'), {}, role(m, c))),
      h('td' + (behind(m) ? '.over' : ''), {}, m.leader || !m.up ? '–' : lag(m) + (m.lag_entries ? `, ${count(m.lag_entries)} ${m.lag_entries === 1 ? 'entry' : 'entries'}` : '')), h('td.num' + (Math.abs(m.clock_gap_ms) > GAP_MS ? '.over' : ''), {}, m.self || !m.up ? '–' : `${count(m.clock_gap_ms).replace('-', '−')} ms`), h('td.num', {}, m.self || !m.up || !m.rtt_us ? '–' : micros(m.rtt_us)),
      h('td', {}, name(m.clients || '–', 50)), h('td', {}, name(m.peers, 50)), h('td', {}, m.self ? 'itself' : m.seen_at_ms ? (m.up ? 'now' : ago(Date.now() - m.seen_at_ms)) : 'never'))));
    const several = (c.groups || []).length > 1;
    groups.hidden = !several;
    if (several) {
      fill(groups, h('h2', {}, 'Groups'), scroll('Groups', h('table', {}, h('caption.unseen', {}, 'Groups'), h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Group'), h('th', { scope: 'col' }, 'Hash slots'), h('th', { scope: 'col' }, 'Leader'), h('th.num', { scope: 'col' }, 'Slowest follower'))),
        h('tbody', {}, c.groups.map((g) => h('tr', {}, h('th', { scope: 'row' }, String(g.group)), h('td', {}, `${g.first_slot} to ${g.last_slot}`), h('td', {}, g.leader ? name(g.leader, 40) : h('span.over', {}, 'none')), h('td.num', {}, `${count(g.lag_entries)} entries`)))))));
    }
    const l = c.last_handover;
    put(changed, l ? `${l.to ? visible(l.to) : 'A node'} took over${c.groups.length > 1 ? ' group ' + l.group : ''}${l.from ? ' from ' + visible(l.from) : ''} ${moment(l.at_ms)}, ${ago(Date.now() - l.at_ms)}. ${l.planned ? 'The node before had handed over.' : 'The node before had failed, or was cut off.'}${l.without_leader_ms > 0 ? ` No leader decided for ${span(l.without_leader_ms)}.` : ''}` : 'This node has seen none since its start.');
    fill(differBody, c.differences && c.differences.length ? c.differences.map((d) => h('div.differ', {}, h('b', {}, d.parameter), h('ul', {}, Object.entries(d.values).map(([m, v]) => h('li', {}, name(m, 40), ' has ', name(v || 'nothing', 120)))))) : h('p', {}, 'Nothing: all nodes that answer have the same settings.'),
      c.feature_level_held_back ? h('p', {}, `The feature level stays at ${c.feature_level}: ${visible(c.feature_level_held_back)}`) : null);
  }
}

function behind(m) {
  return m.up && !m.leader && m.lag_ms >= BEHIND_MS;
}

function lag(m) {
  return m.lag_ms >= BEHIND_MS ? `${span(m.lag_ms)} behind` : 'up to date';
}

function role(m, c) {
  if (!m.up) return 'down';
  if (m.lost) return 'up without its data';
  if (m.leader) return 'leads';
  return m.voter ? 'follows' : 'learns, no vote';
}

// diagram draws the leader above the others, or beside them where the screen is narrow.
function diagram(c, width) {
  const narrow = width < 640;
  const boxW = narrow ? Math.min(230, width - 70) : Math.min(220, (width - 24) / Math.max(3, c.members.length - 1) - 20);
  const boxH = 78;
  const leader = c.members.find((m) => m.leader && m.up);
  const others = c.members.filter((m) => m !== leader);
  const marks = [];
  const places = new Map();
  let height;
  if (narrow) {
    if (leader) places.set(leader, [0, 0]);
    others.forEach((m, i) => places.set(m, [leader ? 40 : 0, (leader ? boxH + 22 : 0) + i * (boxH + 16)]));
    height = (leader ? boxH + 22 : 0) + others.length * (boxH + 16);
  } else {
    const top = leader ? boxH + 62 : 8;
    if (leader) places.set(leader, [(width - boxW) / 2, 8]);
    const step = width / Math.max(1, others.length);
    others.forEach((m, i) => places.set(m, [step * (i + 0.5) - boxW / 2, top]));
    height = top + (others.length ? boxH + 8 : 0);
  }
  if (leader) {
    const [lx, ly] = places.get(leader);
    for (const m of others) {
      const [x, y] = places.get(m);
      const kind = !m.up ? '.broken' : behind(m) ? '.slow' : '';
      const d = narrow ? `M${lx + 18} ${ly + boxH}V${y + boxH / 2}H${x}` : `M${lx + boxW / 2} ${ly + boxH}C${lx + boxW / 2} ${ly + boxH + 40} ${x + boxW / 2} ${y - 40} ${x + boxW / 2} ${y}`;
      marks.push(s('path.wire' + kind, { d }));
      if (!m.up && !narrow) marks.push(s('path.cut', { d: `M${x + boxW / 2 - 7} ${y - 17}l14 14m0-14l-14 14` }));
    }
  }
  for (const [m, [x, y]] of places) {
    const kind = !m.up ? '.gone' : m.leader ? '.leads' : behind(m) ? '.late' : '';
    const leads = (c.groups || []).filter((g) => g.leader === m.id).length;
    const id = visible(m.id);
    marks.push(s('g.node' + kind, {}, s('rect', { x: x + 1, y: y + 1, width: boxW - 2, height: boxH - 2, rx: 9 }),
      m.leader && m.up ? s('path.flag', { d: `M${x + boxW - 26} ${y + 14}v24m0-24h14l-4 5 4 5h-14` }) : null,
      s('text.id', { x: x + 14, y: y + 26 }, id.length > 22 ? id.slice(0, 21) + '…' : id),
      s('text', { x: x + 14, y: y + 46 }, role(m, c) + (c.groups && c.groups.length > 1 && leads ? `, ${leads} of ${c.groups.length} groups` : '') + (m.self ? ' · this page' : '')),
      s('text', { x: x + 14, y: y + 65 }, !m.up ? (m.seen_at_ms ? `last heard ${ago(Date.now() - m.seen_at_ms)}` : 'never heard') : m.leader ? `term ${count(c.term)}` : lag(m))));
  }
  const label = c.members.map((m) => `${visible(m.id)} ${role(m, c)}${m.up && !m.leader ? ', ' + lag(m) : ''}`).join('; ');
  return s('svg.cluster', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': 'Nodes: ' + label }, marks);
}
