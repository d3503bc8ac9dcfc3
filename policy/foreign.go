package policy

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// foreign is a file of envoyproxy/ratelimit.
type foreign struct {
	domain      string
	at          place
	descriptors []*descriptorDef
}

var foreignEntries = []entry[foreign]{
	{key: "domain", read: func(r *reader, n *yaml.Node, f *foreign) {
		f.domain, f.at = r.entryText(n, "a domain", MaxValue), r.at(n)
	}},
	{key: "descriptors", read: func(r *reader, n *yaml.Node, f *foreign) { f.descriptors = r.descriptors(n, 1) }},
}

// ParseEnvoy reads a file of envoyproxy/ratelimit, and returns the policy that it
// is: its name is the domain. file is what errors call it. The error is an *Errors.
func ParseEnvoy(file string, b []byte) (*Record, error) {
	if len(b) > MaxFile {
		return nil, tooLong(file, "a file", MaxFile)
	}
	r := &reader{file: file}
	n := r.root(b)
	if n == nil {
		return nil, r.errs.result()
	}
	var f foreign
	readMap(r, n, "a mapping with domain and descriptors", foreignEntries, &f)
	switch {
	case len(r.errs.List) > 0:
	case f.domain == "":
		r.fail(n, "domain is missing")
	case !isPolicyName(f.domain):
		r.failAt(f.at, "%q %s: give the domain another name, here and in Envoy", clip(f.domain), policyNameError(f.domain))
	}
	if err := r.errs.result(); err != nil {
		return nil, err
	}
	rec := &Record{Name: f.domain, file: file, definition: &definition{name: f.domain, weight: weigh(n), dialect: true, descriptors: f.descriptors}}
	if rec.checkSize(r); len(r.errs.List) > 0 {
		return nil, r.errs.result()
	}
	return rec, nil
}

// Merged returns the policy of the descriptors of two of one name, both in the
// dialect. The error is an *Errors: a descriptor may not be in both.
func (rec *Record) Merged(other *Record) (*Record, error) {
	file := rec.file + " and " + other.file
	var errs Errors
	for _, d := range other.definition.descriptors {
		for _, was := range rec.definition.descriptors {
			if was.composite() == d.composite() {
				errs.add(&Error{File: other.file, Line: int(d.place.line), Column: int(d.place.column), Text: fmt.Sprintf("duplicate composite key %q, first in %s, line %d", clip(d.composite()), rec.file, was.place.line)})
			}
		}
	}
	if err := errs.result(); err != nil {
		return nil, err
	}
	def := *rec.definition
	def.descriptors = append(def.descriptors[:len(def.descriptors):len(def.descriptors)], other.definition.descriptors...)
	both := &Record{Name: rec.Name, file: file, definition: &def}
	if _, err := ParseRecord(file, rec.Name, []byte(both.Text())); err != nil { // the bounds are those of one
		return nil, err
	}
	return both, nil
}

// FileText returns a file of policies that has the records of policies.
func FileText(records []*Record) string {
	var b strings.Builder
	b.WriteString("policies:\n")
	for _, rec := range records {
		b.WriteString("  " + quote(rec.Name) + ":\n")
		for line := range strings.Lines(rec.Text()) {
			b.WriteString("    " + line)
		}
	}
	return b.String()
}

// DialectUse tells what of the dialect a policy uses.
type DialectUse struct {
	Descriptors, Limits int
	// Unlimited, Shadow, Quota, Shared, Metrics are numbers of descriptors that say so;
	// Metrics of those with values in metrics. Months are those of units that are
	// months or years, and Silent those of limits without requests_per_unit.
	Unlimited, Shadow, Quota, Shared, Metrics, Months, Silent int
}

// DialectUse counts what a policy in the dialect uses.
func (rec *Record) DialectUse() (u DialectUse) {
	u.add(rec.definition.descriptors)
	return u
}

func (u *DialectUse) add(defs []*descriptorDef) {
	count := func(n *int, says bool) {
		if says {
			*n++
		}
	}
	for _, d := range defs {
		u.Descriptors++
		count(&u.Shadow, d.shadow)
		count(&u.Quota, d.quota)
		count(&u.Shared, d.share)
		count(&u.Metrics, d.detailed || d.valued)
		if l := d.rate; l != nil {
			u.Limits++
			count(&u.Unlimited, l.unlimited)
			count(&u.Months, l.unit == UnitMonth || l.unit == UnitYear)
			count(&u.Silent, !l.unlimited && !l.given)
		}
		u.add(d.below)
	}
}
