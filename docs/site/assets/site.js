// The search: sections that have all words, those with the words in their title first.
const root = document.body.dataset.root
const input = document.querySelector('#find')
const found = document.querySelector('#found')
const most = 20
const pages = new Map() // those of the sections that were found, by their paths
let index

// load reads the index: for each section its path and title, and the words of its text.
async function load() {
  index ??= fetch(root + 'search.json').then(r => r.json()).then(({ sections, words }) => {
    const all = sections.map(([path, title]) => ({ path, title, low: title.toLowerCase(), words: [] }))
    for (const [word, steps] of Object.entries(words)) {
      let at = 0
      for (const step of steps) all[at += step].words.push(word)
    }
    for (const section of all) section.words = section.words.join(' ')
    return all
  })
  return index
}

// text returns what is below the heading of a section.
async function text(path) {
  const [page, id] = path.split('#')
  if (!pages.has(page)) {
    pages.set(page, fetch(root + page).then(r => r.text()).then(t => new DOMParser().parseFromString(t, 'text/html')))
  }
  const it = await pages.get(page)
  let node = id ? it.getElementById(id) : it.querySelector('h1')
  let out = ''
  while ((node = node?.nextElementSibling) && !/^H\d$/.test(node.tagName)) out += node.textContent + ' '
  return out.replace(/\s+/g, ' ')
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
  const hits = []
  for (const section of await load()) {
    if (!words.every(w => section.low.includes(w) || section.words.includes(w))) continue
    hits.push({ section, score: words.filter(w => section.low.includes(w)).length })
  }
  hits.sort((a, b) => b.score - a.score)
  found.replaceChildren(...hits.slice(0, most).map(({ section }) => {
    const item = document.createElement('li')
    const link = document.createElement('a')
    link.href = root + section.path
    link.textContent = section.title
    link.addEventListener('click', () => { found.hidden = true })
    const part = document.createElement('p')
    text(section.path).then(t => { part.textContent = excerpt(t, words[0]) })
    item.append(link, part)
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
