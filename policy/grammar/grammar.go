package grammar

import (
	"go.yaml.in/yaml/v3"

	"github.com/headgate-io/headgate/policy"
)

// The grammar: a table for each of its mappings. The parser, its messages, the reference
// and the JSON Schema all use these tables.

// Words that a later release may have, and words for features that were left out.
const (
	laterCredit     = "credits from a second budget are not part of the grammar"
	laterHome       = "a home for keys is not part of the grammar"
	laterReplay     = "a replay of decisions is not part of the grammar"
	laterExpression = "expressions are not part of the grammar: write attributes and their values, {method: [POST, PUT]}"
)

// fileParts is what a file may have.
type fileParts struct {
	attributes []policy.AttributeDef
	given      bool // attributes are
	lists      []*policy.ListDef
	policies   []*policy.Definition
	place      policy.Place // of policies
	routes     []*policy.RoutesDef
}

var fileEntries = []entry[fileParts]{
	{key: "attributes", value: "{name: {type: …}, …}", about: "types of attributes, for all policies", schema: mapOf(attributeSchema),
		read: func(r *reader, n *yaml.Node, f *fileParts) { f.given, f.attributes = true, r.attributes(n) }},
	{key: "lists", value: "{name: [value, …], …}", about: "lists of values, for all policies", schema: mapOf(listSchema),
		read: func(r *reader, n *yaml.Node, f *fileParts) { f.lists = r.lists(n) }},
	{key: "policies", value: "{name: policy, …}", about: "the policies; a name is a-z, 0-9 and . _ / -, of 64 at most", schema: mapOf(refTo("policy")),
		read: func(r *reader, n *yaml.Node, f *fileParts) { f.place, f.policies = r.at(n), r.policies(n) }},
	{key: "routes", value: "{name: routes, …}", about: "sets of routes: which policy each request of a gateway asks; a name is a-z, 0-9, _ and -, of 32 at most", schema: mapOf(refTo("routes")),
		read: func(r *reader, n *yaml.Node, f *fileParts) { f.routes = r.routeSets(n) }},
}

var policyEntries = []entry[policy.Definition]{
	{key: "on_failure", value: "open | closed | local", none: "the server's", about: "what is answered while nobody can decide", schema: wordsOf(failures[1:]...),
		read:  func(r *reader, n *yaml.Node, d *policy.Definition) { word(r, n, failures, &d.OnFailure) },
		print: func(d *policy.Definition) string { return d.OnFailure.String() }},
	{key: "backstop", value: "number", none: "the server's", about: "with `open`, how many times its limits a node admits at most while nobody can decide", schema: wholeSchema(1),
		read:  func(r *reader, n *yaml.Node, d *policy.Definition) { d.Backstop, _ = r.whole(n, 1, policy.MaxBackstop) },
		print: func(d *policy.Definition) string { return number(d.Backstop) }},
	{key: "durability", value: "async | sync", none: "the server's", about: "whether an answer waits until it is replicated; a call may ask for more, not for less", schema: wordsOf(durabilities[1:]...),
		read:  func(r *reader, n *yaml.Node, d *policy.Definition) { word(r, n, durabilities, &d.Durability) },
		print: func(d *policy.Definition) string { return d.Durability.String() }},
	{key: "require", value: "attribute, or a list of them", about: "a call without one of them is an error, not a decision", schema: oneOrMore(nameSchema),
		read:  func(r *reader, n *yaml.Node, d *policy.Definition) { d.Require = r.names(n) },
		print: func(d *policy.Definition) string { return policy.Flow(d.Require) }},
	{key: "attributes", value: "{name: {type: …}, …}", about: "types of attributes, for this policy", schema: mapOf(attributeSchema),
		read:  func(r *reader, n *yaml.Node, d *policy.Definition) { d.Attributes = r.attributes(n) },
		parts: func(d *policy.Definition) []Field { return AttributeFields(d.Attributes) }},
	{key: "lists", value: "{name: [value, …], …}", about: "lists of values, for this policy", schema: mapOf(listSchema),
		read:  func(r *reader, n *yaml.Node, d *policy.Definition) { d.Lists = r.lists(n) },
		parts: func(d *policy.Definition) []Field { return listFields(d.Lists) }},
	{key: "deny", value: "[condition, …]", about: "who is denied before anything is counted: status 403, no retry; wins over allow", schema: listOf(refTo("condition")),
		read:  func(r *reader, n *yaml.Node, d *policy.Definition) { d.Deny = r.conditions(n) },
		parts: func(d *policy.Definition) []Field { return conditionFields(d.Deny) }},
	{key: "allow", value: "[condition, …]", about: "who is admitted without being counted", schema: listOf(refTo("condition")),
		read:  func(r *reader, n *yaml.Node, d *policy.Definition) { d.Allow = r.conditions(n) },
		parts: func(d *policy.Definition) []Field { return conditionFields(d.Allow) }},
	{key: "hold", value: "{ttl, expiry, keep, share}", about: "how RL.RESERVE holds what a call may cost", schema: refTo("hold"),
		read: func(r *reader, n *yaml.Node, d *policy.Definition) { d.Hold = r.hold(n) },
		print: func(d *policy.Definition) string {
			return said(d.Hold != policy.Hold{}, Inline(fieldsOf(holdEntries, &d.Hold)))
		}},
	{key: "limits", value: "{name: limit, …}", about: "the limits, 1 to 16, in the order of replies; all that apply must pass", schema: mapOf(refTo("limit")),
		read: func(r *reader, n *yaml.Node, d *policy.Definition) { d.Limits = r.limits(n) },
		block: func(w *writer, indent string, d *policy.Definition) {
			if !d.Dialect {
				w.line(indent, "limits:")
				w.limits(indent+"  ", d.Limits)
			}
		}},
	{key: "overrides", value: "[override, …]", about: "other numbers for some callers; of those that match and name a limit, the first counts", schema: listOf(refTo("override")),
		read:  func(r *reader, n *yaml.Node, d *policy.Definition) { d.Overrides = r.overrides(n) },
		parts: func(d *policy.Definition) []Field { return overrideFields(d.Overrides) },
		block: func(w *writer, indent string, d *policy.Definition) {
			if len(d.Overrides) > 0 {
				w.line(indent, "overrides:")
				w.overrides(indent+"  ", d.Overrides)
			}
		}},
	{key: "descriptors", value: "[descriptor, …]", about: "in place of limits, in the dialect of Envoy's rate limit service: see envoy.md", schema: schema{"type": "array", "items": refTo("descriptor")},
		read: func(r *reader, n *yaml.Node, d *policy.Definition) {
			d.Dialect, d.Descriptors = true, r.descriptors(n, 1)
		},
		block: func(w *writer, indent string, d *policy.Definition) {
			if d.Dialect {
				w.descriptors(indent, d.Descriptors)
			}
		}},
	{key: "home", later: laterHome},
	{key: "then", later: laterCredit},
	{key: "replay", later: laterReplay},
	{key: "cel", later: laterExpression},
}

var limitEntries = []entry[policy.LimitDef]{
	{key: "by", value: "attribute | a|b | {ip: {v4: n, v6: n}}, or a list of up to 4", none: "one counter for all", about: "whose counter it is: `a|b` is the first that is present; addresses count by /32 and /64 unless they say otherwise", schema: bySchema,
		read:  func(r *reader, n *yaml.Node, l *policy.LimitDef) { l.By = r.by(n) },
		print: func(l *policy.LimitDef) string { return byText(l.By) }, effect: NewKeys},
	{key: "rate", value: "amount/period [burst amount] | unlimited | blocked", about: "how much: 100/m, 1000/1h, 5/90s, 100/s burst 200, with a calendar 500_000/month; exactly one of rate, tiers and concurrent", schema: rateSchema,
		read:  func(r *reader, n *yaml.Node, l *policy.LimitDef) { l.Rate = r.rateOnly(n) },
		print: func(l *policy.LimitDef) string { return said(l.Algorithm != policy.Concurrent, numbersText(l.Rate)) }, effect: NewNumbers},
	{key: "tiers", value: "{attribute: name, tier: rate, …, default: rate}", about: "a rate, a number of concurrent calls, or {rate | concurrent, mode, cost}, for each value of an attribute; `default` is for callers of no other tier", schema: tiersSchema,
		read:  func(r *reader, n *yaml.Node, l *policy.LimitDef) { l.Tiers = r.tiers(n) },
		print: func(l *policy.LimitDef) string { return tiersText(l.Tiers) }, effect: NewNumbers},
	{key: "concurrent", value: "number | unlimited | blocked", about: "how many calls may run at once, 1 to 4096: each holds `cost` slots until its hold is settled; tiers that are numbers make a limit one of these too", schema: slotsSchema,
		read:  func(r *reader, n *yaml.Node, l *policy.LimitDef) { l.Rate = r.slots(n) },
		print: func(l *policy.LimitDef) string { return said(l.Algorithm == policy.Concurrent, numbersText(l.Rate)) }, effect: NewNumbers},
	{key: "ttl", value: "duration, 1s to 1h", none: "that of `hold`", about: "for how long a call holds its slots, of concurrent calls, unless RL.RESERVE says so", schema: durationSchema,
		read: func(r *reader, n *yaml.Node, l *policy.LimitDef) {
			l.Ttl = r.between(n, policy.MinHoldTTL, policy.MaxHoldTTL)
		},
		print: func(l *policy.LimitDef) string { return duration(l.Ttl) }},
	{key: "when", value: "condition", none: "always", about: "for which calls the limit is", schema: refTo("condition"),
		read:  func(r *reader, n *yaml.Node, l *policy.LimitDef) { l.When = r.condition(n) },
		print: func(l *policy.LimitDef) string { return said(len(l.When) > 0, l.When.String()) }},
	{key: "algorithm", value: "token | leaky | fixed | sliding | log", none: "token", about: "how it counts: see algorithms.md", schema: wordsOf(algorithms...),
		read: func(r *reader, n *yaml.Node, l *policy.LimitDef) { word(r, n, algorithms, &l.Algorithm) },
		print: func(l *policy.LimitDef) string {
			return said(l.Algorithm != policy.Token && l.Algorithm < policy.Calendar, l.Algorithm.String())
		}, effect: NewKind},
	{key: "align", value: "epoch | first", none: "epoch", about: "where windows begin, of fixed and sliding: at multiples of the period since 1970, or at the first call", schema: wordsOf(aligns...),
		read:  func(r *reader, n *yaml.Node, l *policy.LimitDef) { word(r, n, aligns, &l.Align) },
		print: func(l *policy.LimitDef) string { return said(l.Align != policy.Epoch, l.Align.String()) }, effect: NewNumbers},
	{key: "calendar", value: "zone | {zone, anchor, at}", about: "counts in days, weeks, months, quarters or years of a zone, as the rates say: a fixed window. algorithm and align cannot be used with it", schema: anyOf(zoneSchema, refTo("calendar")),
		read:  func(r *reader, n *yaml.Node, l *policy.LimitDef) { l.Calendar = r.calendar(n) },
		print: func(l *policy.LimitDef) string { return calendarText(l.Calendar) }, effect: NewKind},
	{key: "mode", value: "enforce | soft | shadow | off", none: "enforce", about: "soft counts all that passes and tells when it is over; shadow counts as if it were enforced and denies nothing", schema: wordsOf(modes...),
		read:  func(r *reader, n *yaml.Node, l *policy.LimitDef) { word(r, n, modes, &l.Mode) },
		print: func(l *policy.LimitDef) string { return said(l.Mode != policy.Enforce, l.Mode.String()) }},
	{key: "cost", value: "number | attribute", none: "1", about: "units of a call: a number, which COST multiplies, or the attribute that has it", schema: costSchema,
		read: func(r *reader, n *yaml.Node, l *policy.LimitDef) { l.Cost = r.cost(n) },
		print: func(l *policy.LimitDef) string {
			return said(l.Cost.Attribute != "" || l.Cost.Constant != 1, costText(&l.Cost))
		}},
	{key: "wait", value: "duration", about: "how long a call may be made to wait, of token and leaky: 1500ms", schema: durationSchema,
		read:  func(r *reader, n *yaml.Node, l *policy.LimitDef) { l.Wait = r.wait(n) },
		print: func(l *policy.LimitDef) string { return waitText(l.Wait) }},
	{key: "missing", value: "skip | deny", none: "skip", about: "a call without an attribute of `by` or `cost`: the limit does not apply, or denies", schema: wordsOf(missings...),
		read:  func(r *reader, n *yaml.Node, l *policy.LimitDef) { wordBool(r, n, missings, &l.MissingDenies) },
		print: func(l *policy.LimitDef) string { return said(l.MissingDenies, missings[1]) }},
	{key: "status", value: "429 | 503 | 403", none: "429, and 403 for a denial that no wait ends", about: "the HTTP status of a denial", schema: schema{"enum": []int{429, 503, 403}},
		read:  func(r *reader, n *yaml.Node, l *policy.LimitDef) { l.Status = r.status(n) },
		print: func(l *policy.LimitDef) string { return number(int64(l.Status)) }},
	{key: "penalty", value: "{after, within, block, factor, max}", about: "blocks a caller whom the limit denies again and again", schema: refTo("penalty"),
		read:  func(r *reader, n *yaml.Node, l *policy.LimitDef) { l.Penalty = r.penalty(n) },
		print: func(l *policy.LimitDef) string { return penaltyText(l.Penalty) }},
	{key: "count", value: "admitted | all", none: "admitted", about: "all: calls that are denied, by this limit or another, count too", schema: wordsOf(counts...),
		read:  func(r *reader, n *yaml.Node, l *policy.LimitDef) { wordBool(r, n, counts, &l.CountAll) },
		print: func(l *policy.LimitDef) string { return said(l.CountAll, counts[1]) }},
	{key: "debt", value: "number", none: "0", about: "how many units below nothing a call may take it", schema: wholeSchema(0),
		read:  func(r *reader, n *yaml.Node, l *policy.LimitDef) { l.Debt, _ = r.whole(n, 0, policy.MaxUnits) },
		print: func(l *policy.LimitDef) string { return number(l.Debt) }},
	{key: "share", value: "10% | 10-100%", none: "100%", about: "for which part of the callers of `by` it is; who is in stays in when it grows", schema: schema{"type": "string", "pattern": `^(\d{1,3}-)?\d{1,3}%$`},
		read:  func(r *reader, n *yaml.Node, l *policy.LimitDef) { l.Share = r.share(n) },
		print: func(l *policy.LimitDef) string { return said(l.Share.Partial(), l.Share.String()) }},
	{key: "id", value: "name", none: "the limit's name", about: "what its counters are called, so that a limit can be renamed without losing them", schema: nameSchema,
		read:  func(r *reader, n *yaml.Node, l *policy.LimitDef) { l.ID = r.name(n, "an id") },
		print: func(l *policy.LimitDef) string { return said(l.ID != l.Name, l.ID) }},
	{key: "then", later: laterCredit},
	{key: "home", later: laterHome},
	{key: "replay", later: laterReplay},
	{key: "cel", later: laterExpression},
}

var calendarEntries = []entry[policy.CalendarDef]{
	{key: "zone", value: "name", about: "whose days count: UTC, Europe/Paris, as the IANA database of zones has them", schema: zoneSchema,
		read:  func(r *reader, n *yaml.Node, c *policy.CalendarDef) { r.zone(n, c) },
		print: func(c *policy.CalendarDef) string { return policy.Quote(c.Rules.Zone) }},
	{key: "anchor", value: "1 to 31 | MM-DD", none: "the first", about: "the day on which months begin, quarters in their first month, and years (04-06); in a shorter month the last", schema: anyOf(schema{"type": "integer", "minimum": 1, "maximum": 31}, schema{"type": "string", "pattern": "^(\\d{1,2}|\\d\\d-\\d\\d)$"}),
		read:  func(r *reader, n *yaml.Node, c *policy.CalendarDef) { r.anchor(n, c) },
		print: func(c *policy.CalendarDef) string { return c.Rules.AnchorText() }},
	{key: "at", value: "HH:MM", none: "00:00", about: "the wall time at which days begin", schema: schema{"type": "string", "pattern": "^\\d\\d:\\d\\d$"},
		read:  func(r *reader, n *yaml.Node, c *policy.CalendarDef) { r.atTime(n, c) },
		print: func(c *policy.CalendarDef) string { return said(c.Rules.At != 0, policy.Quote(c.Rules.AtText())) }},
}

var overrideEntries = []entry[policy.OverrideDef]{
	{key: "when", value: "condition", about: "for whom", schema: refTo("condition"),
		read:  func(r *reader, n *yaml.Node, o *policy.OverrideDef) { o.When = r.condition(n) },
		print: func(o *policy.OverrideDef) string { return o.When.String() }},
	{key: "limits", value: "{limit: rate, …}", about: "a rate, a number of concurrent calls, or {rate | concurrent, mode, cost}, for each limit that it changes", schema: mapOf(refTo("numbers")),
		read:  func(r *reader, n *yaml.Node, o *policy.OverrideDef) { o.Limits = r.overridden(n) },
		parts: func(o *policy.OverrideDef) []Field { return overriddenFields(o.Limits) }},
	{key: "until", value: "time", none: "for good", about: "when it ends, such as 2026-12-31T23:00:00Z", schema: schema{"type": "string", "format": "date-time"},
		read:  func(r *reader, n *yaml.Node, o *policy.OverrideDef) { o.Until = r.until(n) },
		print: func(o *policy.OverrideDef) string { return said(o.Until != 0, policy.FormatTime(o.Until)) }},
}

var numbersEntries = []entry[policy.NumbersDef]{
	{key: "rate", value: "rate", about: "how much", schema: rateSchema,
		read:  func(r *reader, n *yaml.Node, x *policy.NumbersDef) { x.Rate = r.rate(n) },
		print: func(x *policy.NumbersDef) string { return said(x.Rate == nil || !x.Rate.Slots(), optional(x.Rate)) }},
	{key: "concurrent", value: "number | unlimited | blocked", about: "how many calls at once, in place of a rate", schema: slotsSchema,
		read:  func(r *reader, n *yaml.Node, x *policy.NumbersDef) { x.Rate = r.slots(n).Rate },
		print: func(x *policy.NumbersDef) string { return said(x.Rate != nil && x.Rate.Slots(), optional(x.Rate)) }},
	{key: "mode", value: "enforce | soft | shadow | off", none: "the limit's", about: "see limit", schema: wordsOf(modes...),
		read: func(r *reader, n *yaml.Node, x *policy.NumbersDef) {
			x.Mode = new(policy.Mode)
			word(r, n, modes, x.Mode)
		},
		print: func(x *policy.NumbersDef) string { return optional(x.Mode) }},
	{key: "cost", value: "number | attribute", none: "the limit's", about: "see limit", schema: costSchema,
		read:  func(r *reader, n *yaml.Node, x *policy.NumbersDef) { c := r.cost(n); x.Cost = &c },
		print: func(x *policy.NumbersDef) string { return costText(x.Cost) }},
}

var clauseEntries = []entry[policy.ClauseDef]{
	{key: "not", value: "value, list of values, or {list: name}", about: "is present, and none of these", schema: refTo("values"),
		read: func(r *reader, n *yaml.Node, c *policy.ClauseDef) { c.Test = policy.IsNone; r.clauseValues(n, c) }},
	{key: "list", value: "name", about: "is in the list", schema: listNameSchema,
		read: func(r *reader, n *yaml.Node, c *policy.ClauseDef) { c.List = r.listName(n) }},
	{key: "present", value: "true | false", about: "has a value, or has none", schema: schema{"type": "boolean"},
		read: func(r *reader, n *yaml.Node, c *policy.ClauseDef) { r.presence(n, c) }},
}

// listEntries are the keys allowed below `not`, in place of values.
var listEntries = []entry[policy.ClauseDef]{
	{key: "list", value: "name", about: "is in the list", schema: listNameSchema,
		read: func(r *reader, n *yaml.Node, c *policy.ClauseDef) { c.List = r.listName(n) }},
}

var attributeEntries = []entry[policy.AttributeDef]{
	{key: "type", value: "ip | lower | secret | [lower, secret]", none: "a plain text", about: "ip: an address; lower: case does not count; secret: only a keyed hash is kept and shown. The attribute named ip has type ip", schema: oneOrMore(wordsOf(typeWords...)),
		read:  func(r *reader, n *yaml.Node, a *policy.AttributeDef) { a.Type = r.types(n) },
		print: func(a *policy.AttributeDef) string { return typesText(a.Type) }},
}

var prefixEntries = []entry[policy.ByDef]{
	{key: "v4", value: "1 to 32", none: "32", about: "bits of an IPv4 address that count", schema: schema{"type": "integer", "minimum": 1, "maximum": 32},
		read:  func(r *reader, n *yaml.Node, b *policy.ByDef) { v, _ := r.whole(n, 1, 32); b.V4 = uint8(v) },
		print: func(b *policy.ByDef) string { return number(int64(b.V4)) }},
	{key: "v6", value: "1 to 128", none: "64", about: "bits of an IPv6 address that count", schema: schema{"type": "integer", "minimum": 1, "maximum": 128},
		read:  func(r *reader, n *yaml.Node, b *policy.ByDef) { v, _ := r.whole(n, 1, 128); b.V6 = uint8(v) },
		print: func(b *policy.ByDef) string { return number(int64(b.V6)) }},
}

var routesEntries = []entry[policy.RoutesDef]{
	{key: "else", value: "route", about: "what requests ask that no pattern matches", schema: refTo("route"),
		read:  func(r *reader, n *yaml.Node, d *policy.RoutesDef) { d.Other = r.target(n) },
		print: func(d *policy.RoutesDef) string { return targetText(d.Other) }},
	{key: "attributes", value: "{name: source, …}", about: "attributes that all routes give, unless they give one of the name themselves", schema: mapOf(refTo("source")),
		read:  func(r *reader, n *yaml.Node, d *policy.RoutesDef) { d.Given = r.given(n) },
		print: func(d *policy.RoutesDef) string { return said(len(d.Given) > 0, givenText(d.Given)) }},
	{key: "encoded_slash", value: "deny | segment | separator", none: "deny", about: "what `%2F` in a path is: a part of its segment, or a slash; `deny` denies requests for which both go by different routes", schema: wordsOf(slashWords...),
		read:  func(r *reader, n *yaml.Node, d *policy.RoutesDef) { word(r, n, slashWords, &d.Slash) },
		print: func(d *policy.RoutesDef) string { return said(d.Slash != policy.SlashDenied, d.Slash.String()) }},
	{key: "case", value: "exact | ignore", none: "exact", about: "whether the case of letters counts in paths", schema: wordsOf(cases...),
		read:  func(r *reader, n *yaml.Node, d *policy.RoutesDef) { wordBool(r, n, cases, &d.Fold) },
		print: func(d *policy.RoutesDef) string { return said(d.Fold, cases[1]) }},
	{key: "match", value: "{pattern: route, …}", about: "routes by pattern, `GET|POST api.example.com/v1/users/{id}`, without method or host for all; the most specific counts", schema: mapOf(refTo("route")),
		read:  func(r *reader, n *yaml.Node, d *policy.RoutesDef) { d.Routes = r.matches(n) },
		parts: func(d *policy.RoutesDef) []Field { return matchFields(d.Routes) }},
}

var targetEntries = []entry[policy.TargetDef]{
	{key: "policy", value: "name", about: "the policy that is asked", schema: textSchema,
		read:  func(r *reader, n *yaml.Node, t *policy.TargetDef) { t.Policy = r.policyName(n) },
		print: func(t *policy.TargetDef) string { return policy.Quote(t.Policy) }},
	{key: "attributes", value: "{name: source, …}", about: "attributes beside ip, method, host, path and route, which every request has: route is the pattern", schema: mapOf(refTo("source")),
		read:  func(r *reader, n *yaml.Node, t *policy.TargetDef) { t.Given = r.given(n) },
		print: func(t *policy.TargetDef) string { return said(len(t.Given) > 0, givenText(t.Given)) }},
	{key: "cost", value: "number", none: "1", about: "what a request costs, of limits whose cost is a number", schema: wholeSchema(1),
		read:  func(r *reader, n *yaml.Node, t *policy.TargetDef) { t.Cost, _ = r.whole(n, 1, policy.MaxUnits) },
		print: func(t *policy.TargetDef) string { return number(t.Cost) }},
}

var sourceEntries = []entry[policy.GivenDef]{
	{key: "header", value: "name", about: "a header field. The gateway must set it itself, or its clients can make it up. A request with the field twice is denied", schema: textSchema,
		read: func(r *reader, n *yaml.Node, g *policy.GivenDef) { r.source(n, policy.FromHeader, g) }},
	{key: "cookie", value: "name", about: "a cookie, the first of its name", schema: textSchema,
		read: func(r *reader, n *yaml.Node, g *policy.GivenDef) { r.source(n, policy.FromCookie, g) }},
	{key: "query", value: "name", about: "a parameter of the query, the first of its name", schema: textSchema,
		read: func(r *reader, n *yaml.Node, g *policy.GivenDef) { r.source(n, policy.FromQuery, g) }},
	{key: "path", value: "name", about: "what stands for `{name}` of the pattern", schema: textSchema,
		read: func(r *reader, n *yaml.Node, g *policy.GivenDef) { r.source(n, policy.FromPath, g) }},
}
