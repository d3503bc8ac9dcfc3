package checks

import (
	"fmt"
	"sync"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/limits/wire"
)

// forms are the parts that replies about policies have in common. Limits with the same name
// use the same form, so that the caches hold fewer of them.
type forms struct {
	mu      sync.Mutex
	limits  map[string]*limitForm
	usually map[usualBy]*usualForm
	passing map[passedBy]*passedForm
}

// formsMost bounds the stored forms of each kind. Further forms are made again for each
// reply.
const formsMost = 10_000

func (f *forms) of(l *policy.Limit) *limitForm {
	f.mu.Lock()
	defer f.mu.Unlock()
	return formOf(&f.limits, l.Name, newLimitForm)
}

// usual returns the form of replies about a limit with its usual numbers. It is nil if the
// window changes with time, or if these numbers admit nothing.
func (f *forms) usual(l *policy.Limit) *usualForm {
	n := l.Usual()
	if n == nil || l.Calendar != nil {
		return nil
	}
	ready, ok := anyReady(n)
	if !ok {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return formOf(&f.usually, usualBy{l.Name, ready.Limit().Capacity(), command.CeilMillis(ready.Window()), n.Mode}, newUsualForm)
}

func (f *forms) passed(by passedBy) *passedForm {
	f.mu.Lock()
	defer f.mu.Unlock()
	return formOf(&f.passing, by, newPassedForm)
}

// formOf returns the form of a key, and makes it if it is missing.
func formOf[K comparable, F any](known *map[K]*F, key K, form func(K) *F) *F {
	f := (*known)[key]
	if f == nil {
		if len(*known) >= formsMost || *known == nil {
			*known = make(map[K]*F)
		}
		f = form(key)
		(*known)[key] = f
	}
	return f
}

// limitForm is the common part of replies about a limit: its name, and how its part begins
// in either protocol. That beginning ends before the value of allowed; for a call that
// passes, before that of limit.
type limitForm struct {
	name         string
	open, passed [2]string
}

func newLimitForm(name string) *limitForm {
	f := &limitForm{name: bulk(name)}
	for i := range f.open {
		w := &resp.Writer{RESP3: i == 1}
		wire.OpenFields(w, limitFields)
		wire.Field(w, "name")
		f.open[i] = string(w.B) + f.name + protocols[i].first
		f.passed[i] = f.open[i] + protocols[i].passed
	}
	return f
}

// usualForm is the common part of replies, in either protocol, about a limit with certain
// numbers, if a call of one unit passes at once. It has the text before the value of
// remaining, and the text after the time of reset.
type usualForm struct {
	limit      int64
	head, tail [2]string
}

// usualBy is what a usualForm depends on. window is in ms.
type usualBy struct {
	name          string
	limit, window int64
	mode          policy.Mode
}

func newUsualForm(by usualBy) *usualForm {
	f, form := &usualForm{limit: by.limit}, newLimitForm(by.name)
	for i := range f.head {
		j := &protocols[i]
		f.head[i] = fmt.Sprintf("%s%d%s", form.passed[i], by.limit, j.inner[1])
		f.tail[i] = fmt.Sprintf("%s%d\r\n", j.unit[by.mode], by.window)
	}
	return f
}

// passedForm is the common part of replies, in either protocol, of calls that pass the same
// number of limits of a policy. It begins after the name of the limit that stands for the
// call, and ends before the first limit.
type passedForm [2]string

// passedBy is what a passedForm depends on.
type passedBy struct {
	version uint64
	applied int
}

func newPassedForm(by passedBy) *passedForm {
	var f passedForm
	for i := range f {
		j := &protocols[i]
		f[i] = fmt.Sprintf("%s%s%s%d%s%d%s%d\r\n", j.reason, bulk("ok"), j.version, by.version, j.applied, by.applied, j.limits, by.applied)
	}
	return &f
}
