package site

import (
	"slices"
	"strings"
)

// lookup is what the search reads. It has the words of each section and not the text: the
// search shows the text from the page itself.
type lookup struct {
	Sections [][2]string      `json:"sections"` // path and title
	Words    map[string][]int `json:"words"`    // the sections with the word: see newLookup
}

// newLookup makes the lookup of sections. For each word it has the numbers of the sections,
// beginning at 0. Each number but the first is written as the distance from the number before
// it: small numbers compress well.
func newLookup(sections []section) lookup {
	l := lookup{Words: map[string][]int{}}
	last := map[string]int{}
	for i, s := range sections {
		l.Sections = append(l.Sections, [2]string{s.Path, s.Title})
		for _, word := range words(s.Text) {
			l.Words[word] = append(l.Words[word], i-last[word])
			last[word] = i
		}
	}
	return l
}

// words returns the words of a text, each once, in lower case and without the punctuation
// of sentences around them.
func words(text string) []string {
	var out []string
	for _, word := range strings.Fields(strings.ToLower(text)) {
		if word = strings.Trim(word, `.,:;?!()[]|"'…`); word != "" {
			out = append(out, word)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
