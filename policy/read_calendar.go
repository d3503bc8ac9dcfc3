package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/headgate-io/headgate/policy/calendar"
)

// calendarDef is the calendar of a limit. Its period is that of the rates, 0 while
// these are all `unlimited` or `blocked`.
type calendarDef struct {
	rules calendar.Rules
	place place
	// anchor is where that is said.
	anchor place
}

// calendar reads a zone, or a mapping with one.
func (r *reader) calendar(n *yaml.Node) *calendarDef {
	c := &calendarDef{rules: calendar.Rules{Zone: "UTC"}, place: r.at(n)}
	if n.Kind != yaml.MappingNode {
		r.zone(n, c)
		return c
	}
	readMap(r, n, "a zone", calendarEntries, c)
	if !hasKey(n, "zone") {
		r.fail(n, "zone is missing: UTC, Europe/Paris")
	}
	return c
}

// zone reads the name of a zone. After an error it stays UTC.
func (r *reader) zone(n *yaml.Node, c *calendarDef) {
	s, ok := r.scalar(n, "a zone such as UTC or Europe/Paris")
	if !ok {
		return
	}
	if _, err := calendar.Zone(s); err != nil {
		r.fail(n, "there is no zone %q%s", clip(s), nearestZone(s))
		return
	}
	c.rules.Zone = s
}

// nearestZone is nearest for zones, where mostly it is the case that is wrong.
func nearestZone(s string) string {
	names := calendar.Zones()
	if i := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, s) }); i >= 0 {
		return fmt.Sprintf(", did you mean %q?", names[i])
	}
	return nearest(s, names)
}

// anchor reads a day of a month, 17, or a date of a year, 04-06.
func (r *reader) anchor(n *yaml.Node, c *calendarDef) {
	c.anchor = r.at(n)
	s, ok := r.scalar(n, "a day such as 17, or a date such as 04-06")
	if !ok {
		return
	}
	month, day, date := strings.Cut(s, "-")
	m, errMonth := 0, error(nil)
	if date {
		m, errMonth = twoDigits(month)
	} else {
		if day = month; len(day) == 1 {
			day = "0" + day
		}
	}
	d, errDay := twoDigits(day)
	if err := cmp.Or(errMonth, errDay); err != nil || d == 0 || date && m == 0 {
		r.fail(n, "%q is no anchor: a day such as 17 for months and quarters, month and day such as 04-06 for years", clip(s))
		return
	}
	c.rules.Month, c.rules.Day = m, d
}

// atTime reads the wall time at which days begin.
func (r *reader) atTime(n *yaml.Node, c *calendarDef) {
	s, ok := r.scalar(n, "a wall time such as 06:00")
	if !ok {
		return
	}
	hours, minutes, colon := strings.Cut(s, ":")
	h, errHour := twoDigits(hours)
	m, errMinute := twoDigits(minutes)
	if err := cmp.Or(errHour, errMinute); err != nil || !colon || h > 23 || m > 59 {
		r.fail(n, "%q is no wall time from 00:00 to 23:59", clip(s))
		return
	}
	c.rules.At = 60*h + m
}

// twoDigits reads a number of two digits.
func twoDigits(s string) (int, error) {
	if len(s) != 2 {
		return 0, strconv.ErrSyntax
	}
	n, err := strconv.ParseUint(s, 10, 8)
	return int(n), err
}

// checkCalendar gives the calendar of a limit the period of its rates, and checks
// what depends on that.
func (r *reader) checkCalendar(d *definition, l *limitDef) {
	c := l.calendar
	own, others := l.ownNumbers(), d.overriding(l.name)
	wrong := false
	for _, x := range append(own, others...) {
		if x.rate != nil && x.rate.Per != 0 && c.rules.Period == 0 {
			c.rules.Period = x.rate.Per
		}
		wrong = wrong || x.rate != nil && x.rate.Kind == Limited
	}
	for _, x := range own {
		wrong = wrong || x.rate == nil // which is told already
		r.checkRate(l, x)
	}
	if c.rules.Period == 0 && (wrong || len(own) == 0) {
		return
	}
	if err := c.check(); err != nil {
		r.failAt(c.anchor, "%s", err)
	}
	if c.rules.Day == 1 && c.rules.Month <= 1 {
		c.rules.Day, c.rules.Month = 0, 0
	}
}

// check returns why there is no such calendar, or nil. Without a period one is
// enough for which there is.
func (c *calendarDef) check() error {
	rules := c.rules
	switch {
	case rules.Period != 0:
	case rules.Month != 0:
		rules.Period = calendar.Year
	case rules.Day != 0:
		rules.Period = calendar.Month
	default:
		rules.Period = calendar.Day
	}
	return rules.Check()
}

// ownNumbers returns the numbers of the limit itself: of its rate, or its tiers.
func (l *limitDef) ownNumbers() (all []*numbersDef) {
	if l.rate != nil {
		all = append(all, l.rate)
	}
	if l.tiers != nil {
		for i := range l.tiers.tiers {
			all = append(all, &l.tiers.tiers[i].numbersDef)
		}
	}
	return all
}

// overriding returns the numbers that overrides have for a limit.
func (d *definition) overriding(limit string) (all []*numbersDef) {
	for _, o := range d.overrides {
		for i := range o.limits {
			if o.limits[i].limit == limit {
				all = append(all, &o.limits[i].numbersDef)
			}
		}
	}
	return all
}

// anchorText returns the anchor as the grammar has it, "" for none.
func anchorText(r calendar.Rules) string {
	switch {
	case r.Month != 0:
		return fmt.Sprintf("%02d-%02d", r.Month, r.Day)
	case r.Day != 0:
		return strconv.Itoa(r.Day)
	}
	return ""
}

// atText returns the wall time as the grammar has it, "" for midnight.
func atText(r calendar.Rules) string {
	if r.At == 0 {
		return ""
	}
	return fmt.Sprintf("%02d:%02d", r.At/60, r.At%60)
}

// String returns the calendar as the grammar has it, "" for none.
func (c *calendarDef) String() string {
	if c == nil {
		return ""
	}
	fs := fieldsOf(calendarEntries, c)
	if len(fs) == 1 {
		return fs[0].value // the zone
	}
	return inline(fs)
}

// counting returns in words how the limit counts: counters of another way are not
// carried over.
func (l *limitDef) counting() string {
	if l.calendar == nil {
		return l.Algorithm.String()
	}
	if l.periodless() {
		return l.countingIn("period")
	}
	return l.countingIn(l.calendar.rules.Period.String())
}

// periodless reports whether no rate of a limit with a calendar says a period.
// Then nothing is counted.
func (l *limitDef) periodless() bool { return l.calendar != nil && l.calendar.rules.Period == 0 }

// goesOn reports whether the limit goes on with counters that are of `counted`: of
// its own way to count, or, while it has no period, of its calendar in any.
func (l *limitDef) goesOn(counted string) bool {
	if !l.periodless() {
		return counted == l.counting()
	}
	for p := calendar.Day; p <= calendar.Year; p++ {
		if counted == l.countingIn(p.String()) {
			return true
		}
	}
	return false
}

// countingIn is counting of a limit with a calendar, in windows of a period.
func (l *limitDef) countingIn(period string) string {
	r := l.calendar.rules
	s := "the " + period + " of " + r.Zone
	if anchor := anchorText(r); anchor != "" {
		s += " from " + anchor
	}
	if at := atText(r); at != "" {
		s += " at " + at
	}
	return s
}
