package checks

import (
	"fmt"
	"sync"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/limits/wire"
)

// forms are what replies of policies have alike. Limits of one name share theirs,
// and with it the caches that replies are copied from.
type forms struct {
	mu      sync.Mutex
	limits  map[string]*limitForm
	usually map[usualBy]*usualForm
	passing map[passedBy]*passedForm
}

// formsMost bounds each kind of them; beyond it they are made anew.
const formsMost = 10_000

func (f *forms) of(l *policy.Limit) *limitForm {
	f.mu.Lock()
	defer f.mu.Unlock()
	return formOf(&f.limits, l.Name, newLimitForm)
}

// usual returns what replies say of a limit by its usual numbers; nil if that is not
// the same at all times, or nothing can be decided by them.
func (f *forms) usual(l *policy.Limit) *usualForm {
	n := l.Usual()
	if n == nil || l.Calendar != nil {
		return nil
	}
	ready, ok := n.Handle.(engine.Ready)
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

// formOf returns what is known for a key, or makes it.
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

// limitForm is what replies about a limit have alike: its name, and what the part
// about it begins with in either protocol, up to the value of allowed, and where a
// call passes up to that of limit.
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

// usualForm is what replies have alike, in either protocol, about a limit by certain
// numbers that is charged one unit of a call which passes at once: up to the value of
// remaining, and from behind the time of reset on.
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

// passedForm is what replies have alike, in either protocol, of calls that pass the
// same number of limits of a policy: from behind the name of the one that stands
// for the call up to the first limit.
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
