package grammar

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/calendar"
)

// calendar reads a zone, or a mapping with one.
func (r *reader) calendar(n *yaml.Node) *policy.CalendarDef {
	c := &policy.CalendarDef{Rules: calendar.Rules{Zone: "UTC"}, Place: r.at(n)}
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
func (r *reader) zone(n *yaml.Node, c *policy.CalendarDef) {
	s, ok := r.scalar(n, "a zone such as UTC or Europe/Paris")
	if !ok {
		return
	}
	if _, err := calendar.Zone(s); err != nil {
		r.fail(n, "there is no zone %q%s", policy.Clip(s), nearestZone(s))
		return
	}
	c.Rules.Zone = s
}

// nearestZone is nearest for zones, whose most frequent error is the case of letters.
func nearestZone(s string) string {
	names := calendar.Zones()
	if i := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, s) }); i >= 0 {
		return fmt.Sprintf(", did you mean %q?", names[i])
	}
	return policy.Nearest(s, names)
}

// anchor reads a day of a month, 17, or a date of a year, 04-06.
func (r *reader) anchor(n *yaml.Node, c *policy.CalendarDef) {
	c.Anchor = r.at(n)
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
		r.fail(n, "%q is not an anchor: for months and quarters write a day such as 17, for years month and day such as 04-06", policy.Clip(s))
		return
	}
	c.Rules.Month, c.Rules.Day = m, d
}

// atTime reads the wall time at which days begin.
func (r *reader) atTime(n *yaml.Node, c *policy.CalendarDef) {
	s, ok := r.scalar(n, "a wall time such as 06:00")
	if !ok {
		return
	}
	hours, minutes, colon := strings.Cut(s, ":")
	h, errHour := twoDigits(hours)
	m, errMinute := twoDigits(minutes)
	if err := cmp.Or(errHour, errMinute); err != nil || !colon || h > 23 || m > 59 {
		r.fail(n, "%q is no wall time from 00:00 to 23:59", policy.Clip(s))
		return
	}
	c.Rules.At = 60*h + m
}

// twoDigits reads a number of two digits.
func twoDigits(s string) (int, error) {
	if len(s) != 2 {
		return 0, strconv.ErrSyntax
	}
	n, err := strconv.ParseUint(s, 10, 8)
	return int(n), err
}

// checkCalendar sets the period of a limit's calendar to that of its rates, and checks
// what depends on it.
func (r *reader) checkCalendar(d *policy.Definition, l *policy.LimitDef) {
	c := l.Calendar
	own, others := numbersOf(l), overriding(d, l.Name)
	wrong := false
	for _, x := range append(own, others...) {
		if x.Rate != nil && x.Rate.Per != 0 && c.Rules.Period == 0 {
			c.Rules.Period = x.Rate.Per
		}
		wrong = wrong || x.Rate != nil && x.Rate.Kind == policy.Limited
	}
	for _, x := range own {
		wrong = wrong || x.Rate == nil // already reported
		r.checkRate(l, x)
	}
	if c.Rules.Period == 0 && (wrong || len(own) == 0) {
		return
	}
	if err := checkRules(c.Rules); err != nil {
		r.failAt(c.Anchor, "%s", err)
	}
	if c.Rules.Day == 1 && c.Rules.Month <= 1 {
		c.Rules.Day, c.Rules.Month = 0, 0
	}
}

// checkRules returns why the rules do not make a calendar, or nil. Without a period, some
// period must fit.
func checkRules(rules calendar.Rules) error {
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

// numbersOf returns the numbers of the limit itself: those of its rate, or of
// its tiers.
func numbersOf(l *policy.LimitDef) (all []*policy.NumbersDef) {
	if l.Rate != nil {
		all = append(all, l.Rate)
	}
	if l.Tiers != nil {
		for i := range l.Tiers.Tiers {
			all = append(all, &l.Tiers.Tiers[i].NumbersDef)
		}
	}
	return all
}

// overriding returns the numbers that overrides have for a limit.
func overriding(d *policy.Definition, limit string) (all []*policy.NumbersDef) {
	for _, o := range d.Overrides {
		for i := range o.Limits {
			if o.Limits[i].Limit == limit {
				all = append(all, &o.Limits[i].NumbersDef)
			}
		}
	}
	return all
}

// calendarText returns the calendar in the grammar's form; "" if there is none.
func calendarText(c *policy.CalendarDef) string {
	if c == nil {
		return ""
	}
	fs := fieldsOf(calendarEntries, c)
	if len(fs) == 1 {
		return fs[0].Value // the zone
	}
	return Inline(fs)
}
