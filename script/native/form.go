package native

import (
	"strings"
	"sync"

	"github.com/headgate-io/headgate/script/lua"
)

// A form is a text of Headgate's own that represents many texts. These differ from it only
// in constants: the order of arguments, names of fields, times. Forms recognize scripts
// that people write themselves, because many follow the same articles.
//
// A constant that is a parameter may differ (see param). All other constants must be equal.
type form struct {
	script *Script // Library, Instead, Index
	text   string
	// bind returns what runs in place of a text of the form, or nil if the form does not
	// support the parameters.
	bind func(p *params) func(c *Call) bool
}

// The parameters of forms. Each number replaces a constant of the script. A parameter up to
// argMember is the index of an argument, not the argument's value.
const (
	argLimit = 9001 + iota
	argWindow
	argNow
	argRate
	argCost
	argMember
	constFrom // the least score
	constTTL
	constScale
	constField
	constOther
	constYes
	constNo
	firstParam = argLimit
	params0    = constNo + 1
)

// params are the constants of a script at the places of the parameters of its form.
type params struct {
	set    [params0 - firstParam]bool
	values [params0 - firstParam]lua.Constant
}

// arg returns the index, from 0, of the argument that a parameter names; -1 if there is
// none.
func (p *params) arg(param int) int {
	c := p.values[param-firstParam]
	if !p.set[param-firstParam] || c.IsText || c.Number < 1 || c.Number > maxArgument || c.Number != float64(int(c.Number)) {
		return -1
	}
	return int(c.Number) - 1
}

// maxArgument bounds the index of an argument. Limiters have few arguments.
const maxArgument = 16

// has reports whether the form has a parameter. number and text return its value; ok is
// false if it has the other type.
func (p *params) has(param int) bool { return p.set[param-firstParam] }

func (p *params) number(param int) (n float64, ok bool) {
	c := p.values[param-firstParam]
	return c.Number, p.has(param) && !c.IsText
}

// whole reads a parameter that is an integer.
func (p *params) whole(param int, to *int64) bool {
	n, ok := p.number(param)
	*to = int64(n)
	return ok && float64(*to) == n && *to < maxExact && *to > -maxExact
}

func (p *params) text(param int) (s string, ok bool) {
	c := p.values[param-firstParam]
	return c.Text, p.has(param) && c.IsText
}

// shaped is a form with the constants of its text.
type shaped struct {
	form
	constants []lua.Constant
}

// match returns the parameters of the form in a script of its shape, which has as many
// constants.
func (s *shaped) match(constants []lua.Constant) (p params, ok bool) {
	for i, want := range s.constants {
		at := int(want.Number) - firstParam
		switch {
		case want.IsText || at < 0 || at >= len(p.set):
			if constants[i] != want {
				return p, false
			}
		case !p.set[at]:
			p.set[at], p.values[at] = true, constants[i]
		case p.values[at] != constants[i]:
			return p, false
		}
	}
	return p, true
}

// byShape has the forms, some hundred. Prepare makes it, so that only programs that run
// scripts take the time.
var byShape map[lua.Fingerprint][]shaped

// Prepare makes the forms known, for scripts that people have written themselves. The first
// call takes some milliseconds.
var Prepare = sync.OnceFunc(func() {
	byShape = make(map[lua.Fingerprint][]shaped)
	for _, family := range families {
		for i := range family {
			if family[i].forms == nil {
				continue
			}
			for _, f := range family[i].forms() {
				f.script = &family[i]
				learn(f)
			}
		}
	}
})

func learn(f form) {
	shape, constants, err := lua.ShapeOf(f.text)
	if err != nil {
		panic("script/native: " + f.text + ": " + err.Error())
	}
	byShape[shape] = append(byShape[shape], shaped{f, constants})
}

// maxForm is the longest text, in bytes, that is compared with the forms.
const maxForm = 4 << 10

// byForm returns the known script whose form a text has, or nil.
func byForm(text string) *Script {
	Prepare()
	if len(text) > maxForm {
		return nil
	}
	shape, constants, err := lua.ShapeOf(text)
	if err != nil {
		return nil
	}
	list := byShape[shape]
	for i := range list {
		p, ok := list[i].match(constants)
		if !ok {
			continue
		}
		if run := list[i].bind(&p); run != nil {
			s := *list[i].script
			s.run = run
			return &s
		}
	}
	return nil
}

// choice is a word of a text, and the words that may replace it. A word may consist of
// several parts with | between them; each option then has as many parts.
type choice[T any] struct {
	word    string
	options []option[T]
}

// option is a text, and its meaning for the script, if any.
type option[T any] struct {
	text string
	with func(*T)
}

// expand calls yield with each text that choices make from one, in the order of the
// choices, and with its meaning.
func expand[T any](text string, meaning T, choices []choice[T], yield func(text string, meaning T)) {
	if len(choices) == 0 {
		yield(text, meaning)
		return
	}
	c := choices[0]
	for _, o := range c.options {
		m := meaning
		if o.with != nil {
			o.with(&m)
		}
		chosen, by := text, strings.Split(o.text, "|")
		for i, word := range strings.Split(c.word, "|") {
			chosen = strings.ReplaceAll(chosen, word, by[i])
		}
		expand(chosen, m, choices[1:], yield)
	}
}
