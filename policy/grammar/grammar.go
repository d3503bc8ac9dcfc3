package grammar

import (
	"go.yaml.in/yaml/v3"

	"github.com/headgate-io/headgate/policy"
)

// The grammar: a table for each of its mappings. The parser, its messages, the reference
// and the JSON Schema all use these tables.

// Words that a later release may use, and words for features that Headgate deliberately
// lacks.
const (
	laterCredit     = "credits from a second budget are not part of the grammar"
	laterHome       = "home belongs to the whole policy: write it beside limits"
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
	{key: "attributes", value: "{name: {type: …}, …}", about: "the types of attributes, for all policies", schema: mapOf(attributeSchema),
		read: func(r *reader, n *yaml.Node, f *fileParts) { f.given, f.attributes = true, r.attributes(n) }},
	{key: "lists", value: "{name: [value, …], …}", about: "named lists of values, for all policies", schema: mapOf(listSchema),
		read: func(r *reader, n *yaml.Node, f *fileParts) { f.lists = r.lists(n) }},
	{key: "policies", value: "{name: policy, …}", about: "the policies by name. A name has at most 64 characters: a-z, 0-9 and . _ / -", schema: mapOf(refTo("policy")),
		read: func(r *reader, n *yaml.Node, f *fileParts) { f.place, f.policies = r.at(n), r.policies(n) }},
	{key: "routes", value: "{name: routes, …}", about: "sets of routes by name. A set says which policy decides each request of a gateway. A name has at most 32 characters: a-z, 0-9, _ and -", schema: mapOf(refTo("routes")),
		read: func(r *reader, n *yaml.Node, f *fileParts) { f.routes = r.routeSets(n) }},
}

var policyEntries = []entry[policy.Definition]{
	{key: "on_failure", value: "open | closed | local", none: "the server's", about: "the answer while no node can decide", schema: wordsOf(failures[1:]...),
		read:  func(r *reader, n *yaml.Node, d *policy.Definition) { word(r, n, failures, &d.OnFailure) },
		print: func(d *policy.Definition) string { return d.OnFailure.String() }},
	{key: "backstop", value: "number", none: "the server's", about: "with `open`: a node admits at most this many times each limit while no node can decide", schema: wholeSchema(1),
		read:  func(r *reader, n *yaml.Node, d *policy.Definition) { d.Backstop, _ = r.whole(n, 1, policy.MaxBackstop) },
		print: func(d *policy.Definition) string { return number(d.Backstop) }},
	{key: "durability", value: "async | sync", none: "the server's", about: "sync: an answer waits until its effect is on a majority of nodes. A call can ask for sync, but not for async", schema: wordsOf(durabilities[1:]...),
		read:  func(r *reader, n *yaml.Node, d *policy.Definition) { word(r, n, durabilities, &d.Durability) },
		print: func(d *policy.Definition) string { return d.Durability.String() }},
	{key: "require", value: "attribute, or a list of them", about: "a call without one of these attributes gets an error, and no decision is made", schema: oneOrMore(nameSchema),
		read:  func(r *reader, n *yaml.Node, d *policy.Definition) { d.Require = r.names(n) },
		print: func(d *policy.Definition) string { return policy.Flow(d.Require) }},
	{key: "attributes", value: "{name: {type: …}, …}", about: "the types of attributes, for this policy", schema: mapOf(attributeSchema),
		read:  func(r *reader, n *yaml.Node, d *policy.Definition) { d.Attributes = r.attributes(n) },
		parts: func(d *policy.Definition) []Field { return AttributeFields(d.Attributes) }},
	{key: "lists", value: "{name: [value, …], …}", about: "named lists of values, for this policy", schema: mapOf(listSchema),
		read:  func(r *reader, n *yaml.Node, d *policy.Definition) { d.Lists = r.lists(n) },
		parts: func(d *policy.Definition) []Field { return listFields(d.Lists) }},
	{key: "deny", value: "[condition, …]", about: "callers that are denied before anything is counted: status 403, no retry. A caller that matches deny and allow is denied", schema: listOf(refTo("condition")),
		read:  func(r *reader, n *yaml.Node, d *policy.Definition) { d.Deny = r.conditions(n) },
		parts: func(d *policy.Definition) []Field { return conditionFields(d.Deny) }},
	{key: "allow", value: "[condition, …]", about: "callers that are admitted without being counted", schema: listOf(refTo("condition")),
		read:  func(r *reader, n *yaml.Node, d *policy.Definition) { d.Allow = r.conditions(n) },
		parts: func(d *policy.Definition) []Field { return conditionFields(d.Allow) }},
	{key: "hold", value: "{ttl, expiry, keep, share}", about: "how RL.RESERVE holds the estimated cost of a call", schema: refTo("hold"),
		read: func(r *reader, n *yaml.Node, d *policy.Definition) { d.Hold = r.hold(n) },
		print: func(d *policy.Definition) string {
			return said(d.Hold != policy.Hold{}, Inline(fieldsOf(holdEntries, &d.Hold)))
		}},
	{key: "home", value: "attribute | []", none: "the first attribute that `by` of every limit has", about: "with several groups: callers with the same value of this attribute are decided in one group. Limits that do not count by it are ceilings, in a second group. []: the first group decides all callers", schema: anyOf(nameSchema, schema{"type": "array", "items": nameSchema, "maxItems": 1}),
		read:  func(r *reader, n *yaml.Node, d *policy.Definition) { d.Homed, d.Home = true, readHome(r, n) },
		print: func(d *policy.Definition) string { return homeText(d) }},
	{key: "limits", value: "{name: limit, …}", about: "the limits, 1 to 16, in the order of replies; all that apply must pass", schema: mapOf(refTo("limit")),
		read: func(r *reader, n *yaml.Node, d *policy.Definition) { d.Limits = r.limits(n) },
		block: func(w *writer, indent string, d *policy.Definition) {
			if !d.Dialect {
				w.line(indent, "limits:")
				w.limits(indent+"  ", d.Limits)
			}
		}},
	{key: "overrides", value: "[override, …]", about: "other numbers for some callers. For each limit the first override that matches and names the limit counts", schema: listOf(refTo("override")),
		read:  func(r *reader, n *yaml.Node, d *policy.Definition) { d.Overrides = r.overrides(n) },
		parts: func(d *policy.Definition) []Field { return overrideFields(d.Overrides) },
		block: func(w *writer, indent string, d *policy.Definition) {
			if len(d.Overrides) > 0 {
				w.line(indent, "overrides:")
				w.overrides(indent+"  ", d.Overrides)
			}
		}},
	{key: "descriptors", value: "[descriptor, …]", about: "the limits, written in the configuration language of Envoy's rate limit service instead of as `limits`: see envoy.md", schema: schema{"type": "array", "items": refTo("descriptor")},
		read: func(r *reader, n *yaml.Node, d *policy.Definition) {
			d.Dialect, d.Descriptors = true, r.descriptors(n, 1)
		},
		block: func(w *writer, indent string, d *policy.Definition) {
			if d.Dialect {
				w.descriptors(indent, d.Descriptors)
			}
		}},
	{key: "then", later: laterCredit},
	{key: "replay", later: laterReplay},
	{key: "cel", later: laterExpression},
}

var limitEntries = []entry[policy.LimitDef]{
	{key: "by", value: "attribute | a|b | {ip: {v4: n, v6: n}}, or a list of up to 4", none: "one counter for all", about: "a counter for each combination of values of these attributes. `a|b` is the first of them that is present. Addresses are cut to /32 (IPv4) and /64 (IPv6) unless v4 and v6 say otherwise", schema: bySchema,
		read:  func(r *reader, n *yaml.Node, l *policy.LimitDef) { l.By = r.by(n) },
		print: func(l *policy.LimitDef) string { return byText(l.By) }, effect: NewKeys},
	{key: "rate", value: "amount/period [burst amount] | unlimited | blocked", about: "the amount in a period: 100/m, 1000/1h, 5/90s, 100/s burst 200, with a calendar 500_000/month", schema: rateSchema,
		read:  func(r *reader, n *yaml.Node, l *policy.LimitDef) { l.Rate = r.rateOnly(n) },
		print: func(l *policy.LimitDef) string { return said(l.Algorithm != policy.Concurrent, numbersText(l.Rate)) }, effect: NewNumbers},
	{key: "tiers", value: "{attribute: name, tier: rate, …, default: rate}", about: "numbers for each value of an attribute: a rate, a number of concurrent calls, or {rate | concurrent, mode, cost}. `default` is for callers with no other tier", schema: tiersSchema,
		read:  func(r *reader, n *yaml.Node, l *policy.LimitDef) { l.Tiers = r.tiers(n) },
		print: func(l *policy.LimitDef) string { return tiersText(l.Tiers) }, effect: NewNumbers},
	{key: "concurrent", value: "number | unlimited | blocked", about: "how many calls may run at once, 1 to 4096. Each call holds `cost` slots until its hold is settled. If the tiers are plain numbers, they are numbers of concurrent calls", schema: slotsSchema,
		read:  func(r *reader, n *yaml.Node, l *policy.LimitDef) { l.Rate = r.slots(n) },
		print: func(l *policy.LimitDef) string { return said(l.Algorithm == policy.Concurrent, numbersText(l.Rate)) }, effect: NewNumbers},
	{key: "ttl", value: "duration, 1s to 1h", none: "that of `hold`", about: "with `concurrent`: how long a call holds its slots, unless RL.RESERVE has a TTL", schema: durationSchema,
		read: func(r *reader, n *yaml.Node, l *policy.LimitDef) {
			l.Ttl = r.between(n, policy.MinHoldTTL, policy.MaxHoldTTL)
		},
		print: func(l *policy.LimitDef) string { return duration(l.Ttl) }},
	{key: "when", value: "condition", none: "always", about: "the calls to which the limit applies", schema: refTo("condition"),
		read:  func(r *reader, n *yaml.Node, l *policy.LimitDef) { l.When = r.condition(n) },
		print: func(l *policy.LimitDef) string { return said(len(l.When) > 0, l.When.String()) }},
	{key: "algorithm", value: "token | leaky | fixed | sliding | log", none: "token", about: "how the limit counts: see algorithms.md", schema: wordsOf(algorithms...),
		read: func(r *reader, n *yaml.Node, l *policy.LimitDef) { word(r, n, algorithms, &l.Algorithm) },
		print: func(l *policy.LimitDef) string {
			return said(l.Algorithm != policy.Token && l.Algorithm < policy.Calendar, l.Algorithm.String())
		}, effect: NewKind},
	{key: "align", value: "epoch | first", none: "epoch", about: "where windows of fixed and sliding begin. epoch: at multiples of the period since 1970. first: at the first call", schema: wordsOf(aligns...),
		read:  func(r *reader, n *yaml.Node, l *policy.LimitDef) { word(r, n, aligns, &l.Align) },
		print: func(l *policy.LimitDef) string { return said(l.Align != policy.Epoch, l.Align.String()) }, effect: NewNumbers},
	{key: "calendar", value: "zone | {zone, anchor, at}", about: "windows are days, weeks, months, quarters or years of a time zone; the rates say which. It excludes algorithm and align", schema: anyOf(zoneSchema, refTo("calendar")),
		read:  func(r *reader, n *yaml.Node, l *policy.LimitDef) { l.Calendar = r.calendar(n) },
		print: func(l *policy.LimitDef) string { return calendarText(l.Calendar) }, effect: NewKind},
	{key: "mode", value: "enforce | soft | shadow | off", none: "enforce", about: "enforce: denies. soft: counts the calls that pass, and the reply says when the limit is exceeded. shadow: counts as if it were enforced, and denies nothing. off: does not apply", schema: wordsOf(modes...),
		read:  func(r *reader, n *yaml.Node, l *policy.LimitDef) { word(r, n, modes, &l.Mode) },
		print: func(l *policy.LimitDef) string { return said(l.Mode != policy.Enforce, l.Mode.String()) }},
	{key: "cost", value: "number | attribute", none: "1", about: "units of a call: a number, which COST multiplies, or the name of an attribute that has the number", schema: costSchema,
		read: func(r *reader, n *yaml.Node, l *policy.LimitDef) { l.Cost = r.cost(n) },
		print: func(l *policy.LimitDef) string {
			return said(l.Cost.Attribute != "" || l.Cost.Constant != 1, costText(&l.Cost))
		}},
	{key: "wait", value: "duration", about: "for token and leaky: the longest time that a call can be asked to wait, such as 1500ms", schema: durationSchema,
		read:  func(r *reader, n *yaml.Node, l *policy.LimitDef) { l.Wait = r.wait(n) },
		print: func(l *policy.LimitDef) string { return waitText(l.Wait) }},
	{key: "missing", value: "skip | deny", none: "skip", about: "if a call has no value for an attribute of `by` or `cost`: skip means that the limit does not apply, deny that it denies", schema: wordsOf(missings...),
		read:  func(r *reader, n *yaml.Node, l *policy.LimitDef) { wordBool(r, n, missings, &l.MissingDenies) },
		print: func(l *policy.LimitDef) string { return said(l.MissingDenies, missings[1]) }},
	{key: "status", value: "429 | 503 | 403", none: "429, and 403 for a denial that no wait ends", about: "the HTTP status of a denial", schema: schema{"enum": []int{429, 503, 403}},
		read:  func(r *reader, n *yaml.Node, l *policy.LimitDef) { l.Status = r.status(n) },
		print: func(l *policy.LimitDef) string { return number(int64(l.Status)) }},
	{key: "penalty", value: "{after, within, block, factor, max}", about: "blocks a caller that the limit denies again and again", schema: refTo("penalty"),
		read:  func(r *reader, n *yaml.Node, l *policy.LimitDef) { l.Penalty = r.penalty(n) },
		print: func(l *policy.LimitDef) string { return penaltyText(l.Penalty) }},
	{key: "count", value: "admitted | all", none: "admitted", about: "all: calls that are denied, by this limit or by another, are charged too", schema: wordsOf(counts...),
		read:  func(r *reader, n *yaml.Node, l *policy.LimitDef) { wordBool(r, n, counts, &l.CountAll) },
		print: func(l *policy.LimitDef) string { return said(l.CountAll, counts[1]) }},
	{key: "debt", value: "number", none: "0", about: "how many units below zero a call can take the limit", schema: wholeSchema(0),
		read:  func(r *reader, n *yaml.Node, l *policy.LimitDef) { l.Debt, _ = r.whole(n, 0, policy.MaxUnits) },
		print: func(l *policy.LimitDef) string { return number(l.Debt) }},
	{key: "share", value: "10% | 10-100%", none: "100%", about: "the part of the callers, as `by` distinguishes them, to which the limit applies. A caller in a smaller share is also in a larger one", schema: schema{"type": "string", "pattern": `^(\d{1,3}-)?\d{1,3}%$`},
		read:  func(r *reader, n *yaml.Node, l *policy.LimitDef) { l.Share = r.share(n) },
		print: func(l *policy.LimitDef) string { return said(l.Share.Partial(), l.Share.String()) }},
	{key: "id", value: "name", none: "the limit's name", about: "the name of its counters: a limit that is renamed and keeps its id keeps its counters", schema: nameSchema,
		read:  func(r *reader, n *yaml.Node, l *policy.LimitDef) { l.ID = r.name(n, "an id") },
		print: func(l *policy.LimitDef) string { return said(l.ID != l.Name, l.ID) }},
	{key: "then", later: laterCredit},
	{key: "home", later: laterHome},
	{key: "replay", later: laterReplay},
	{key: "cel", later: laterExpression},
}

var calendarEntries = []entry[policy.CalendarDef]{
	{key: "zone", value: "name", about: "the time zone, by its name in the IANA database: UTC, Europe/Paris", schema: zoneSchema,
		read:  func(r *reader, n *yaml.Node, c *policy.CalendarDef) { r.zone(n, c) },
		print: func(c *policy.CalendarDef) string { return policy.Quote(c.Rules.Zone) }},
	{key: "anchor", value: "1 to 31 | MM-DD", none: "the first", about: "the day of the month on which a month begins, or a quarter in its first month. For a year a date, such as 04-06. In a shorter month the last day counts", schema: anyOf(schema{"type": "integer", "minimum": 1, "maximum": 31}, schema{"type": "string", "pattern": "^(\\d{1,2}|\\d\\d-\\d\\d)$"}),
		read:  func(r *reader, n *yaml.Node, c *policy.CalendarDef) { r.anchor(n, c) },
		print: func(c *policy.CalendarDef) string { return c.Rules.AnchorText() }},
	{key: "at", value: "HH:MM", none: "00:00", about: "the wall time at which days begin", schema: schema{"type": "string", "pattern": "^\\d\\d:\\d\\d$"},
		read:  func(r *reader, n *yaml.Node, c *policy.CalendarDef) { r.atTime(n, c) },
		print: func(c *policy.CalendarDef) string { return said(c.Rules.At != 0, policy.Quote(c.Rules.AtText())) }},
}

var overrideEntries = []entry[policy.OverrideDef]{
	{key: "when", value: "condition", about: "the callers that get these numbers", schema: refTo("condition"),
		read:  func(r *reader, n *yaml.Node, o *policy.OverrideDef) { o.When = r.condition(n) },
		print: func(o *policy.OverrideDef) string { return o.When.String() }},
	{key: "limits", value: "{limit: rate, …}", about: "for each limit that it changes a rate, a number of concurrent calls, or {rate | concurrent, mode, cost}", schema: mapOf(refTo("numbers")),
		read:  func(r *reader, n *yaml.Node, o *policy.OverrideDef) { o.Limits = r.overridden(n) },
		parts: func(o *policy.OverrideDef) []Field { return overriddenFields(o.Limits) }},
	{key: "until", value: "time", none: "for good", about: "when it ends, such as 2026-12-31T23:00:00Z", schema: schema{"type": "string", "format": "date-time"},
		read:  func(r *reader, n *yaml.Node, o *policy.OverrideDef) { o.Until = r.until(n) },
		print: func(o *policy.OverrideDef) string { return said(o.Until != 0, policy.FormatTime(o.Until)) }},
}

var numbersEntries = []entry[policy.NumbersDef]{
	{key: "rate", value: "rate", about: "the amount in a period", schema: rateSchema,
		read:  func(r *reader, n *yaml.Node, x *policy.NumbersDef) { x.Rate = r.rate(n) },
		print: func(x *policy.NumbersDef) string { return said(x.Rate == nil || !x.Rate.Slots(), optional(x.Rate)) }},
	{key: "concurrent", value: "number | unlimited | blocked", about: "the number of calls at once, instead of a rate", schema: slotsSchema,
		read:  func(r *reader, n *yaml.Node, x *policy.NumbersDef) { x.Rate = r.slots(n).Rate },
		print: func(x *policy.NumbersDef) string { return said(x.Rate != nil && x.Rate.Slots(), optional(x.Rate)) }},
	{key: "mode", value: "enforce | soft | shadow | off", none: "the limit's", about: "as for a limit", schema: wordsOf(modes...),
		read: func(r *reader, n *yaml.Node, x *policy.NumbersDef) {
			x.Mode = new(policy.Mode)
			word(r, n, modes, x.Mode)
		},
		print: func(x *policy.NumbersDef) string { return optional(x.Mode) }},
	{key: "cost", value: "number | attribute", none: "the limit's", about: "as for a limit", schema: costSchema,
		read:  func(r *reader, n *yaml.Node, x *policy.NumbersDef) { c := r.cost(n); x.Cost = &c },
		print: func(x *policy.NumbersDef) string { return costText(x.Cost) }},
}

var clauseEntries = []entry[policy.ClauseDef]{
	{key: "not", value: "value, list of values, or {list: name}", about: "the attribute is present, and matches none of these", schema: refTo("values"),
		read: func(r *reader, n *yaml.Node, c *policy.ClauseDef) { c.Test = policy.IsNone; r.clauseValues(n, c) }},
	{key: "list", value: "name", about: "the value is in the list of this name", schema: listNameSchema,
		read: func(r *reader, n *yaml.Node, c *policy.ClauseDef) { c.List = r.listName(n) }},
	{key: "present", value: "true | false", about: "true: the attribute has a value. false: it has none", schema: schema{"type": "boolean"},
		read: func(r *reader, n *yaml.Node, c *policy.ClauseDef) { r.presence(n, c) }},
}

// listEntries are the keys allowed below `not`, in place of values.
var listEntries = []entry[policy.ClauseDef]{
	{key: "list", value: "name", about: "the value is in the list of this name", schema: listNameSchema,
		read: func(r *reader, n *yaml.Node, c *policy.ClauseDef) { c.List = r.listName(n) }},
}

var attributeEntries = []entry[policy.AttributeDef]{
	{key: "type", value: "ip | lower | secret | [lower, secret]", none: "a plain text", about: "ip: an address. lower: upper and lower case are the same. secret: only a keyed hash is kept and shown. The attribute named ip has the type ip", schema: oneOrMore(wordsOf(typeWords...)),
		read:  func(r *reader, n *yaml.Node, a *policy.AttributeDef) { a.Type = r.types(n) },
		print: func(a *policy.AttributeDef) string { return typesText(a.Type) }},
}

var prefixEntries = []entry[policy.ByDef]{
	{key: "v4", value: "1 to 32", none: "32", about: "bits of an IPv4 address", schema: schema{"type": "integer", "minimum": 1, "maximum": 32},
		read:  func(r *reader, n *yaml.Node, b *policy.ByDef) { v, _ := r.whole(n, 1, 32); b.V4 = uint8(v) },
		print: func(b *policy.ByDef) string { return number(int64(b.V4)) }},
	{key: "v6", value: "1 to 128", none: "64", about: "bits of an IPv6 address", schema: schema{"type": "integer", "minimum": 1, "maximum": 128},
		read:  func(r *reader, n *yaml.Node, b *policy.ByDef) { v, _ := r.whole(n, 1, 128); b.V6 = uint8(v) },
		print: func(b *policy.ByDef) string { return number(int64(b.V6)) }},
}

var routesEntries = []entry[policy.RoutesDef]{
	{key: "else", value: "route", about: "the route of requests that no pattern matches", schema: refTo("route"),
		read:  func(r *reader, n *yaml.Node, d *policy.RoutesDef) { d.Other = r.target(n) },
		print: func(d *policy.RoutesDef) string { return targetText(d.Other) }},
	{key: "attributes", value: "{name: source, …}", about: "attributes that all routes give, unless a route gives an attribute of this name itself", schema: mapOf(refTo("source")),
		read:  func(r *reader, n *yaml.Node, d *policy.RoutesDef) { d.Given = r.given(n) },
		print: func(d *policy.RoutesDef) string { return said(len(d.Given) > 0, givenText(d.Given)) }},
	{key: "encoded_slash", value: "deny | segment | separator", none: "deny", about: "how `%2F` in a path is read. segment: as a part of its segment. separator: as a slash. deny: a request is denied if the two readings lead to different routes", schema: wordsOf(slashWords...),
		read:  func(r *reader, n *yaml.Node, d *policy.RoutesDef) { word(r, n, slashWords, &d.Slash) },
		print: func(d *policy.RoutesDef) string { return said(d.Slash != policy.SlashDenied, d.Slash.String()) }},
	{key: "case", value: "exact | ignore", none: "exact", about: "whether upper and lower case differ in paths", schema: wordsOf(cases...),
		read:  func(r *reader, n *yaml.Node, d *policy.RoutesDef) { wordBool(r, n, cases, &d.Fold) },
		print: func(d *policy.RoutesDef) string { return said(d.Fold, cases[1]) }},
	{key: "match", value: "{pattern: route, …}", about: "routes by pattern, such as `GET|POST api.example.com/v1/users/{id}`. A pattern without a method or host is for all of them. The most specific pattern counts", schema: mapOf(refTo("route")),
		read:  func(r *reader, n *yaml.Node, d *policy.RoutesDef) { d.Routes = r.matches(n) },
		parts: func(d *policy.RoutesDef) []Field { return matchFields(d.Routes) }},
}

var targetEntries = []entry[policy.TargetDef]{
	{key: "policy", value: "name", about: "the policy that is asked", schema: textSchema,
		read:  func(r *reader, n *yaml.Node, t *policy.TargetDef) { t.Policy = r.policyName(n) },
		print: func(t *policy.TargetDef) string { return policy.Quote(t.Policy) }},
	{key: "attributes", value: "{name: source, …}", about: "further attributes. Every request has ip, method, host, path and route, which is the pattern", schema: mapOf(refTo("source")),
		read:  func(r *reader, n *yaml.Node, t *policy.TargetDef) { t.Given = r.given(n) },
		print: func(t *policy.TargetDef) string { return said(len(t.Given) > 0, givenText(t.Given)) }},
	{key: "cost", value: "number", none: "1", about: "the COST of a request", schema: wholeSchema(1),
		read:  func(r *reader, n *yaml.Node, t *policy.TargetDef) { t.Cost, _ = r.whole(n, 1, policy.MaxUnits) },
		print: func(t *policy.TargetDef) string { return number(t.Cost) }},
}

var sourceEntries = []entry[policy.GivenDef]{
	{key: "header", value: "name", about: "a header field. The gateway must set the field itself: otherwise its clients can invent it. A request with the field twice is denied", schema: textSchema,
		read: func(r *reader, n *yaml.Node, g *policy.GivenDef) { r.source(n, policy.FromHeader, g) }},
	{key: "cookie", value: "name", about: "the first cookie of this name", schema: textSchema,
		read: func(r *reader, n *yaml.Node, g *policy.GivenDef) { r.source(n, policy.FromCookie, g) }},
	{key: "query", value: "name", about: "the first parameter of this name in the query", schema: textSchema,
		read: func(r *reader, n *yaml.Node, g *policy.GivenDef) { r.source(n, policy.FromQuery, g) }},
	{key: "path", value: "name", about: "the part of the path that matches `{name}` in the pattern", schema: textSchema,
		read: func(r *reader, n *yaml.Node, g *policy.GivenDef) { r.source(n, policy.FromPath, g) }},
}
