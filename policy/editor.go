package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Meta is what belongs to a policy besides its text.
type Meta struct {
	Version uint64
	// Epochs are the epochs of the policy's limits, by id; see diff.Revise. The editor does
	// not copy them.
	Epochs map[string]LimitEpoch
}

// shared is what policies share: attributes, lists, and lists as values.
type shared struct {
	attributes map[string]Type
	record     *Record // of attributes, or nil
	lists      map[string]*Record
	values     map[listUse]*values
	alike      *alike
}

// listUse is a list as attributes of one type use it.
type listUse struct {
	list string
	t    Type
}

// Editor makes the next set. All its changes take effect, or none.
type Editor struct {
	old  *Set
	next *Set
	// changed has the policies to compile; nil marks a deleted policy.
	changed map[string]*pending
	// overrides has the edited overrides, by policy.
	overrides map[string]*overridesEditor
	// all is set if all policies must be compiled. Otherwise also the policies that use one
	// of lists must be compiled.
	all       bool
	lists     map[string]bool
	ownShared bool
	ownRoutes bool
	// gone has the epochs of policies that are being retired: see Retire.
	gone map[string]map[string]LimitEpoch
}

type pending struct {
	rec  *Record
	meta Meta
}

// Edit returns an editor. Finish only one editor of a set.
func (s *Set) Edit() *Editor {
	next := *s
	return &Editor{
		old: s, next: &next, changed: map[string]*pending{},
		overrides: map[string]*overridesEditor{}, lists: map[string]bool{},
	}
}

// share copies what policies share, once, so that the editor may change it.
func (e *Editor) share() *shared {
	if !e.ownShared {
		e.ownShared = true
		old := e.next.shared
		e.next.shared = &shared{old.attributes, old.record, maps.Clone(old.lists), maps.Clone(old.values), old.alike}
	}
	return e.next.shared
}

// SetSecret sets the cluster's key for attributes of type secret. It does not compile
// policies again: policies compiled with another key keep that key.
func (e *Editor) SetSecret(key []byte) { e.next.config.Secret = key }

// Set adds a record, or replaces the record with the same name. Only policies have epochs
// in their Meta.
func (e *Editor) Set(r *Record, m Meta) {
	switch r.Kind {
	case PolicyRecord:
		e.changed[r.Name] = &pending{r, m}
	case AttributesRecord:
		sh := e.share()
		sh.record, sh.attributes = r, map[string]Type{}
		for _, a := range r.Attributes {
			sh.attributes[a.Name] = a.Type
		}
		e.all = true
	case ListRecord:
		e.setList(r.List.Name, r)
	case RoutesRecord:
		s := *r.Routes.Set
		s.Version = m.Version
		e.setRoutes(r.Name, &s)
	}
}

// Delete removes a record, and reports whether it existed. If the record is a list in
// use, Finish fails.
func (e *Editor) Delete(name string) bool {
	if name == attributesRecord {
		found := e.next.shared.record != nil
		sh := e.share()
		sh.record, sh.attributes, e.all = nil, nil, true
		return found
	}
	if list, ok := strings.CutPrefix(name, listPrefix); ok {
		found := e.next.shared.lists[list] != nil
		e.setList(list, nil)
		return found
	}
	if strings.HasPrefix(name, routesPrefix) {
		found := e.next.routes[name] != nil
		e.setRoutes(name, nil)
		return found
	}
	pending, edited := e.changed[name]
	found := e.old.policies.named(name) != nil
	if edited {
		found = pending != nil
	}
	e.changed[name] = nil
	return found
}

// Retire deletes a policy whose counters may be taken over later. epochs says which of the
// counters are void; the editor keeps epochs without a copy.
func (e *Editor) Retire(name string, epochs map[string]LimitEpoch) bool {
	if e.gone == nil {
		e.gone = map[string]map[string]LimitEpoch{}
	}
	e.gone[name] = epochs
	return e.Delete(name)
}

func (e *Editor) setList(name string, r *Record) {
	sh := e.share()
	if r == nil {
		delete(sh.lists, name)
	} else {
		sh.lists[name] = r
	}
	e.lists[name] = true
	maps.DeleteFunc(sh.values, func(u listUse, _ *values) bool { return u.list == name })
}

// setRoutes replaces a set of routes; nil removes it.
func (e *Editor) setRoutes(name string, s *Routes) {
	if !e.ownRoutes {
		e.ownRoutes, e.next.routes = true, maps.Clone(e.next.routes)
	}
	switch {
	case s == nil:
		delete(e.next.routes, name)
	case e.next.routes == nil:
		e.next.routes = map[string]*Routes{name: s}
	default:
		e.next.routes[name] = s
	}
}

// Finish returns the next set, or an *Errors with all errors. The editor must not be used
// afterwards.
func (e *Editor) Finish(revision uint64) (*Set, error) {
	next, old := e.next, e.old
	next.revision = revision
	e.share() // compiling adds the values of lists
	if len(e.overrides) > 0 {
		edit := old.overrides.edit()
		for name, o := range e.overrides {
			edit.put(name, o.finish())
		}
		next.overrides = edit.next
	}
	if e.all || len(e.lists) > 0 {
		for name, p := range old.policies.all() {
			if e.all || slices.ContainsFunc(p.lists, func(l string) bool { return e.lists[l] }) {
				e.again(name)
			}
		}
	}
	policies := old.policies.edit()
	for name := range e.overrides {
		if _, edited := e.changed[name]; edited {
			continue
		}
		if p := old.policies.named(name); p != nil {
			policies.put(name, p.under(next.overrides.named(name)))
		}
	}
	var errs Errors
	var come, went []string
	for _, name := range slices.Sorted(maps.Keys(e.changed)) {
		x := e.changed[name]
		before := old.policies.named(name)
		if x == nil {
			if before != nil {
				went = append(went, name)
			}
			policies.put(name, nil)
			continue
		}
		if before == nil {
			come = append(come, name)
		}
		p, wrong := compile(x.rec, x.meta, &next.config, next.shared, next.overrides.named(name))
		if wrong != nil {
			for _, w := range wrong.List {
				errs.Add(w)
			}
			errs.More += wrong.More
			continue
		}
		policies.put(name, p)
	}
	next.policies = policies.next
	if next.policies.count > MaxPolicies {
		errs.Add(&Error{Text: fmt.Sprintf("there may be at most %d policies", MaxPolicies)})
	}
	if len(next.routes) > MaxRouteSets {
		errs.Add(&Error{Text: fmt.Sprintf("there may be at most %d sets of routes", MaxRouteSets)})
	}
	if err := errs.Result(); err != nil {
		return nil, err
	}
	if len(come)+len(went) > 0 || e.gone != nil {
		next.keepGone(old.gone, e.gone)
		next.names = renamed(old.names, come, went)
	}
	return next, nil
}

// renamed returns sorted names with some added and some removed.
func renamed(names, come, went []string) []string {
	next := make([]string, 0, len(names)+len(come)-len(went))
	for _, name := range names {
		if _, found := slices.BinarySearch(went, name); found {
			continue
		}
		for len(come) > 0 && come[0] < name {
			next, come = append(next, come[0]), come[1:]
		}
		next = append(next, name)
	}
	return append(next, come...)
}

// keepGone keeps the epochs of policies that are gone, unless they are back.
func (s *Set) keepGone(before, now map[string]map[string]LimitEpoch) {
	s.gone = map[string]map[string]LimitEpoch{}
	maps.Copy(s.gone, before)
	maps.Copy(s.gone, now)
	maps.DeleteFunc(s.gone, func(name string, epochs map[string]LimitEpoch) bool {
		return len(epochs) == 0 || s.policies.named(name) != nil
	})
}

// again marks a policy to be compiled that is not itself edited.
func (e *Editor) again(name string) {
	if _, edited := e.changed[name]; edited {
		return
	}
	if p := e.old.policies.named(name); p != nil {
		e.changed[name] = &pending{p.Record, Meta{p.Version, p.Epochs}}
	}
}
