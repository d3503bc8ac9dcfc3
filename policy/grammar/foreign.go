package grammar

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/headgate-io/headgate/policy"
)

// foreign is a file of envoyproxy/ratelimit.
type foreign struct {
	domain      string
	at          policy.Place
	descriptors []*policy.DescriptorDef
}

var foreignEntries = []entry[foreign]{
	{key: "domain", read: func(r *reader, n *yaml.Node, f *foreign) {
		f.domain, f.at = r.entryText(n, "a domain", policy.MaxValue), r.at(n)
	}},
	{key: "descriptors", read: func(r *reader, n *yaml.Node, f *foreign) { f.descriptors = r.descriptors(n, 1) }},
}

// ParseEnvoy reads a file of envoyproxy/ratelimit as a policy. The policy's name is the
// file's domain. file is the name of the text in errors. The error is an *Errors.
func ParseEnvoy(file string, b []byte) (*policy.Record, error) {
	if len(b) > MaxFile {
		return nil, tooLong(file, "a file", MaxFile)
	}
	r := &reader{file: file}
	n := r.root(b)
	if n == nil {
		return nil, r.errs.Result()
	}
	var f foreign
	readMap(r, n, "a mapping with domain and descriptors", foreignEntries, &f)
	switch err := policy.CheckPolicyName(f.domain); {
	case len(r.errs.List) > 0:
	case f.domain == "":
		r.fail(n, "domain is missing")
	case err != nil:
		r.failAt(f.at, "%q %s: give the domain another name, here and in Envoy", policy.Clip(f.domain), err)
	}
	if err := r.errs.Result(); err != nil {
		return nil, err
	}
	rec := &policy.Record{Name: f.domain, File: file, Definition: &policy.Definition{Name: f.domain, Weight: weigh(n), Dialect: true, Descriptors: f.descriptors}}
	if r.checkSize(rec); len(r.errs.List) > 0 {
		return nil, r.errs.Result()
	}
	return rec, nil
}

// Merge merges the descriptors of two policies of the same name, both in Envoy's dialect.
// The error is an *Errors: a descriptor must not be in both.
func Merge(rec, other *policy.Record) (*policy.Record, error) {
	file := rec.File + " and " + other.File
	var errs policy.Errors
	for _, d := range other.Definition.Descriptors {
		for _, was := range rec.Definition.Descriptors {
			if was.Composite() == d.Composite() {
				errs.Add(policy.Place{Line: d.Place.Line, Column: d.Place.Column}.Error(other.File, "duplicate composite key %q, first in %s, line %d", policy.Clip(d.Composite()), rec.File, was.Place.Line))
			}
		}
	}
	if err := errs.Result(); err != nil {
		return nil, err
	}
	def := *rec.Definition
	def.Descriptors = append(def.Descriptors[:len(def.Descriptors):len(def.Descriptors)], other.Definition.Descriptors...)
	both := &policy.Record{Name: rec.Name, File: file, Definition: &def}
	if _, err := ParseRecord(file, rec.Name, []byte(Format(both))); err != nil { // the bounds are those of one
		return nil, err
	}
	return both, nil
}

// FileText returns a file of policies that has the records of policies.
func FileText(records []*policy.Record) string {
	var b strings.Builder
	b.WriteString("policies:\n")
	for _, rec := range records {
		b.WriteString("  " + policy.Quote(rec.Name) + ":\n")
		for line := range strings.Lines(Format(rec)) {
			b.WriteString("    " + line)
		}
	}
	return b.String()
}

// DialectUse counts what a policy uses from the dialect.
type DialectUse struct {
	Descriptors, Limits int
	// Unlimited, Shadow, Quota and Shared are the numbers of descriptors with these fields.
	// Metrics is the number of descriptors whose values are in metrics. Months is the
	// number of units that are months or years. Silent is the number of limits without
	// requests_per_unit.
	Unlimited, Shadow, Quota, Shared, Metrics, Months, Silent int
}

// UseOf counts what a policy in the dialect uses.
func UseOf(rec *policy.Record) (u DialectUse) {
	u.add(rec.Definition.Descriptors)
	return u
}

func (u *DialectUse) add(defs []*policy.DescriptorDef) {
	count := func(n *int, says bool) {
		if says {
			*n++
		}
	}
	for _, d := range defs {
		u.Descriptors++
		count(&u.Shadow, d.Shadow)
		count(&u.Quota, d.Quota)
		count(&u.Shared, d.Share)
		count(&u.Metrics, d.Detailed || d.Valued)
		if l := d.Rate; l != nil {
			u.Limits++
			count(&u.Unlimited, l.Unlimited)
			count(&u.Months, l.Unit == policy.UnitMonth || l.Unit == policy.UnitYear)
			count(&u.Silent, !l.Unlimited && !l.Given)
		}
		u.add(d.Below)
	}
}
