package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headgate-io/headgate/server/events"
	"github.com/headgate-io/headgate/server/web/admin"
)

const (
	// staleAfter is the age from which figures are shown as old.
	staleAfter = 3 * time.Second
	// keptEvents bounds the events that are kept to be shown.
	keptEvents = 100
	// mostBars bounds the bars of a history.
	mostBars = 60
)

// style is how a line is emphasised.
type style int

const (
	plain style = iota
	bold
	alarm
)

// codes begin a style on a terminal.
var codes = [...]string{plain: "", bold: "\x1b[1m", alarm: "\x1b[1;37;41m"}

// line is one line of a frame.
type line struct {
	text  string
	style style
}

// state is what is known of a node.
type state struct {
	host       string
	last, prev *reading // prev is the reading before last; nil for the first reading
	err        error    // why the newest reading failed; nil if it did not
	events     []events.Event
	lost       int64
	eventsErr  error // why there is no stream of events
}

// took adds a reading, or the error of one.
func (s *state) took(r *reading, err error) {
	s.err = err
	if err == nil {
		s.prev, s.last = s.last, r
	}
}

// hear adds an event.
func (s *state) hear(h heard) {
	s.eventsErr = h.err
	if h.err != nil {
		return
	}
	if h.lost > 0 {
		s.lost += h.lost
		return
	}
	s.events = append(s.events, h.event)
	if len(s.events) > keptEvents {
		s.events = slices.Delete(s.events, 0, len(s.events)-keptEvents)
	}
}

// frame returns the lines of a screen.
func (s *state) frame(width, height int, at time.Time) (lines []line) {
	add := func(style style, text string) { lines = append(lines, line{cut(text, width), style}) }
	n := &s.last.now
	role := "follows"
	if n.Leader {
		role = "leads"
	}
	add(bold, fmt.Sprintf("headgate %s  %s %s  %s  up %s  %s", clean(n.Version), clean(n.Node), role, s.host, uptime(n.Started, s.last.at), at.Format(time.TimeOnly)))
	if stale := s.stale(at); stale != "" {
		add(alarm, stale)
	} else {
		add(plain, "")
	}
	for _, text := range s.figures(width) {
		add(plain, text)
	}
	rest := max(height-len(lines)-4, 6)
	rows := max(rest/2, 3)
	add(plain, "")
	left, right := s.topKeys(rows), s.topLimits(rows)
	half := max(width-2, 0) / 2
	for i := range max(len(left), len(right)) {
		text := pad(at0(left, i), half) + "  " + cut(at0(right, i), half)
		if i == 0 {
			add(bold, text)
		} else {
			add(plain, text)
		}
	}
	add(plain, "")
	add(bold, s.eventsTitle())
	for _, e := range slices.Backward(s.events) {
		if len(lines) >= height {
			break
		}
		add(plain, eventText(&e))
	}
	return lines[:min(len(lines), height)]
}

// stale says why the figures are not those of now; "" if they are.
func (s *state) stale(at time.Time) string {
	age := at.Sub(s.last.at)
	switch {
	case s.err != nil:
		return fmt.Sprintf("NO ANSWER for %v, the figures are old: %s", age.Round(time.Second), clean(s.err.Error()))
	case age > staleAfter:
		return fmt.Sprintf("NO ANSWER for %v, the figures are old", age.Round(time.Second))
	}
	return ""
}

// figures returns the lines with the figures of now and their history.
func (s *state) figures(width int) (lines []string) {
	past := s.last.past
	past = past[max(0, len(past)-min(mostBars, max(width-36, 0))):]
	row := func(name, now string, of func(*admin.Point) float64) {
		values := make([]float64, len(past))
		for i := range past {
			values[i] = of(&past[i])
		}
		lines = append(lines, fmt.Sprintf("%-12s %20s  %s", name, now, bars(values)))
	}
	span := func(p *admin.Point) float64 { return float64(max(p.Span, 1)) / 1000 }
	n := &s.last.now
	var was admin.Now
	seconds := 0.0
	if s.prev != nil {
		was, seconds = s.prev.now, s.last.at.Sub(s.prev.at).Seconds()
	}
	rate := func(is, was uint64) string {
		if seconds == 0 {
			return "-"
		}
		return fmt.Sprintf("%.1f/s", float64(grown(is, was))/seconds)
	}
	row("allowed", rate(n.Allowed, was.Allowed), func(p *admin.Point) float64 { return float64(p.Allowed) / span(p) })
	row("denied", rate(n.Denied, was.Denied), func(p *admin.Point) float64 { return float64(p.Denied) / span(p) })
	row("degraded", rate(n.Degraded, was.Degraded), func(p *admin.Point) float64 { return float64(p.Degraded) / span(p) })
	share := func(denied, allowed uint64) float64 { return 100 * float64(denied) / float64(max(denied+allowed, 1)) }
	part := "-"
	if seconds > 0 {
		part = fmt.Sprintf("%.1f %%", share(grown(n.Denied, was.Denied), grown(n.Allowed, was.Allowed)))
	}
	row("denial rate", part, func(p *admin.Point) float64 { return share(p.Denied, p.Allowed) })
	took := "-"
	if len(past) > 0 && past[len(past)-1].P99 > 0 {
		took = fmt.Sprintf("%d / %d µs", past[len(past)-1].P50, past[len(past)-1].P99)
	}
	row("p50 / p99", took, func(p *admin.Point) float64 { return float64(p.P99) })
	row("connections", fmt.Sprint(n.Clients), func(p *admin.Point) float64 { return float64(p.Clients) })
	row("keys", fmt.Sprint(n.Keys), func(p *admin.Point) float64 { return float64(p.Keys) })
	memory := size(n.Memory)
	if n.MemoryLimit > 0 {
		memory += " of " + size(n.MemoryLimit)
	}
	row("memory", memory, func(p *admin.Point) float64 { return float64(p.Memory) })
	return lines
}

// topKeys returns a title and up to n lines with the keys that are denied most.
func (s *state) topKeys(n int) []string {
	lines := []string{"  DENIED  KEY"}
	for _, k := range s.last.keys[:min(n, len(s.last.keys))] {
		text := fmt.Sprintf("%8d  %s", k.Count, clean(k.Key))
		if k.Blocked > 0 {
			text += fmt.Sprintf("  blocked %v", (time.Duration(k.Blocked) * time.Millisecond).Round(time.Second))
		}
		lines = append(lines, text)
	}
	if len(lines) == 1 {
		lines = append(lines, "          none in the last minutes")
	}
	return lines
}

// limitRates are rates per second of a limit of a policy.
type limitRates struct {
	name                   string
	denied, would, allowed float64
}

// topLimits returns a title and up to n lines with the limits that deny most now.
func (s *state) topLimits(n int) []string {
	lines := []string{"DENIED/s  WOULD/s ALLOWED/s  POLICY LIMIT"}
	if s.prev == nil {
		return lines
	}
	type place struct{ policy, limit string }
	before := make(map[place]*admin.LimitCount, len(s.prev.counts))
	for i := range s.prev.counts {
		c := &s.prev.counts[i]
		before[place{c.Policy, c.Limit}] = c
	}
	seconds := max(s.last.at.Sub(s.prev.at).Seconds(), 0.001)
	var list []limitRates
	for i := range s.last.counts {
		c := &s.last.counts[i]
		was := before[place{c.Policy, c.Limit}]
		if was == nil {
			was = new(admin.LimitCount)
		}
		per := func(now, before uint64) float64 { return float64(grown(now, before)) / seconds }
		r := limitRates{name: limitName(c), denied: per(c.Denied+c.Penalty, was.Denied+was.Penalty), would: per(c.Shadow+c.Soft, was.Shadow+was.Soft), allowed: per(c.Allowed, was.Allowed)}
		if r.denied+r.would+r.allowed > 0 {
			list = append(list, r)
		}
	}
	slices.SortStableFunc(list, func(x, y limitRates) int {
		return cmp.Or(cmp.Compare(y.denied, x.denied), cmp.Compare(y.would, x.would), cmp.Compare(y.allowed, x.allowed))
	})
	for _, r := range list[:min(n, len(list))] {
		lines = append(lines, fmt.Sprintf("%8.1f %8.1f %9.1f  %s", r.denied, r.would, r.allowed, r.name))
	}
	return lines
}

func limitName(c *admin.LimitCount) string {
	switch {
	case c.Policy == "":
		return "all others"
	case c.Limit == "":
		return clean(c.Policy) + " (lists)"
	}
	return clean(c.Policy) + " " + clean(c.Limit)
}

func (s *state) eventsTitle() string {
	title := "EVENTS, the newest first"
	if s.lost > 0 {
		title += fmt.Sprintf(" (%d not kept)", s.lost)
	}
	if s.eventsErr != nil {
		title += ": " + clean(s.eventsErr.Error())
	}
	return title
}

// eventText returns an event as a line.
func eventText(e *events.Event) string {
	parts := []string{time.UnixMilli(e.At).Format(time.TimeOnly), fmt.Sprintf("%-8s", clean(string(e.Type)))}
	add := func(text string) {
		if text != "" {
			parts = append(parts, clean(text))
		}
	}
	add(e.Policy)
	add(e.Limit)
	add(e.Key)
	add(e.Change)
	add(e.Reason)
	if e.Count > 1 {
		add(fmt.Sprintf("%d times", e.Count))
	}
	if e.For > 0 {
		add("for " + (time.Duration(e.For) * time.Millisecond).Round(time.Second).String())
	}
	if e.Version > 0 {
		add(fmt.Sprintf("version %d", e.Version))
	}
	if e.Deleted {
		add("deleted")
	}
	add(e.Role)
	add(e.Leader)
	if e.Author != "" {
		add("by " + e.Author)
	}
	return strings.Join(parts, " ")
}

// levels are the bars, from the lowest.
var levels = []rune("▁▂▃▄▅▆▇█")

// bars returns a bar for each value. The highest value has the highest bar.
func bars(values []float64) string {
	if len(values) == 0 {
		return ""
	}
	most := slices.Max(values)
	b := make([]rune, len(values))
	for i, v := range values {
		level := 0
		if most > 0 {
			level = int(v / most * float64(len(levels)-1))
		}
		b[i] = levels[level]
	}
	return string(b)
}

// grown returns by how much a count has grown. CONFIG RESETSTAT and a restart set counts to
// 0.
func grown(now, before uint64) uint64 {
	if now < before {
		return now
	}
	return now - before
}

// uptime returns how long a node has run at a time.
func uptime(started string, at time.Time) string {
	t, err := time.Parse(time.RFC3339, started)
	if err != nil {
		return "?"
	}
	return max(at.Sub(t), 0).Truncate(time.Second).String()
}

// size returns a number of bytes with a unit.
func size(n int64) string {
	value, unit := float64(n), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value < 1024 {
			break
		}
		value, unit = value/1024, next
	}
	if unit == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}

// cut returns a text with at most width characters.
func cut(s string, width int) string {
	r := []rune(s)
	switch {
	case len(r) <= width:
		return s
	case width == 0:
		return ""
	}
	return string(r[:width-1]) + "…"
}

// pad returns a text with exactly width characters.
func pad(s string, width int) string {
	s = cut(s, width)
	return s + strings.Repeat(" ", width-len([]rune(s)))
}

// at0 returns element i, or "".
func at0(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return ""
}
