// The search: sections that have all words, those with the words in their title first.
const root = document.body.dataset.root
const input = document.querySelector('#find')
const found = document.querySelector('#found')
const most = 20
let sections

async function load() {
  sections ??= fetch(root + 'search.json').then(r => r.json())
  return sections
}

function excerpt(text, word) {
  const at = Math.max(0, text.toLowerCase().indexOf(word) - 60)
  return (at > 0 ? '…' : '') + text.slice(at, at + 180) + (at + 180 < text.length ? '…' : '')
}

async function search() {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean)
  if (words.length === 0) {
    found.hidden = true
    return
  }
  const all = await load()
  const hits = []
  for (const section of all) {
    const title = section.t.toLowerCase(), text = section.s.toLowerCase()
    if (!words.every(w => title.includes(w) || text.includes(w))) continue
    hits.push({ section, score: words.filter(w => title.includes(w)).length })
  }
  hits.sort((a, b) => b.score - a.score)
  found.replaceChildren(...hits.slice(0, most).map(({ section }) => {
    const item = document.createElement('li')
    const link = document.createElement('a')
    link.href = root + section.u
    link.textContent = section.t
    link.addEventListener('click', () => { found.hidden = true })
    const text = document.createElement('p')
    text.textContent = excerpt(section.s, words[0])
    item.append(link, text)
    return item
  }))
  if (hits.length === 0) found.textContent = 'Nothing has all these words.'
  found.hidden = false
}

input.addEventListener('focus', load)
input.addEventListener('input', search)
document.addEventListener('keydown', e => {
  if (e.key === '/' && document.activeElement !== input) {
    e.preventDefault()
    input.focus()
  } else if (e.key === 'Escape') {
    input.value = ''
    search()
  }
})
if (matchMedia('(min-width: 64.01rem)').matches) document.querySelector('#menu details').open = true
