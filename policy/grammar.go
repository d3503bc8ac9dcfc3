package policy

import "go.yaml.in/yaml/v3"

// The grammar: a table for each of its mappings. What the parser reads and
// says, the reference and the JSON Schema are all from here.

// Words that a later release will have, and those that stand for something that
// was left out.
const (
	laterCredit     = "credits from a second budget are not part of the grammar"
	laterHome       = "a home for keys is not part of the grammar"
	laterReplay     = "a replay of decisions is not part of the grammar"
	laterExpression = "expressions are not part of the grammar: write attributes and their values, {method: [POST, PUT]}"
)

// fileParts is what a file may have.
type fileParts struct {
	attributes []attributeDef
	given      bool // attributes are
	lists      []*listDef
	policies   []*definition
	place      place // of policies
	routes     []*routesDef
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

var policyEntries = []entry[definition]{
	{key: "on_failure", value: "open | closed | local", none: "the server's", about: "what is answered while nobody can decide", schema: wordsOf(failures[1:]...),
		read:  func(r *reader, n *yaml.Node, d *definition) { word(r, n, failures[:], &d.onFailure) },
		print: func(d *definition) string { return d.onFailure.String() }},
	{key: "backstop", value: "number", none: "the server's", about: "with `open`, how many times its limits a node admits at most while nobody can decide", schema: wholeSchema(1),
		read:  func(r *reader, n *yaml.Node, d *definition) { d.backstop, _ = r.whole(n, 1, MaxBackstop) },
		print: func(d *definition) string { return number(d.backstop) }},
	{key: "durability", value: "async | sync", none: "the server's", about: "whether an answer waits until it is replicated; a call may ask for more, not for less", schema: wordsOf(durabilities[1:]...),
		read:  func(r *reader, n *yaml.Node, d *definition) { word(r, n, durabilities[:], &d.durability) },
		print: func(d *definition) string { return d.durability.String() }},
	{key: "require", value: "attribute, or a list of them", about: "a call without one of them is an error, not a decision", schema: oneOrMore(nameSchema),
		read:  func(r *reader, n *yaml.Node, d *definition) { d.require = r.names(n) },
		print: func(d *definition) string { return flow(d.require) }},
	{key: "attributes", value: "{name: {type: …}, …}", about: "types of attributes, for this policy", schema: mapOf(attributeSchema),
		read:  func(r *reader, n *yaml.Node, d *definition) { d.attributes = r.attributes(n) },
		parts: func(d *definition) []field { return attributeFields(d.attributes) }},
	{key: "lists", value: "{name: [value, …], …}", about: "lists of values, for this policy", schema: mapOf(listSchema),
		read:  func(r *reader, n *yaml.Node, d *definition) { d.lists = r.lists(n) },
		parts: func(d *definition) []field { return listFields(d.lists) }},
	{key: "deny", value: "[condition, …]", about: "who is denied before anything is counted: status 403, no retry; wins over allow", schema: listOf(refTo("condition")),
		read:  func(r *reader, n *yaml.Node, d *definition) { d.deny = r.conditions(n) },
		parts: func(d *definition) []field { return conditionFields(d.deny) }},
	{key: "allow", value: "[condition, …]", about: "who is admitted without being counted", schema: listOf(refTo("condition")),
		read:  func(r *reader, n *yaml.Node, d *definition) { d.allow = r.conditions(n) },
		parts: func(d *definition) []field { return conditionFields(d.allow) }},
	{key: "hold", value: "{ttl, expiry, keep, share}", about: "how RL.RESERVE holds what a call may cost", schema: refTo("hold"),
		read:  func(r *reader, n *yaml.Node, d *definition) { d.hold = r.hold(n) },
		print: func(d *definition) string { return said(d.hold != Hold{}, inline(fieldsOf(holdEntries, &d.hold))) }},
	{key: "limits", value: "{name: limit, …}", about: "the limits, 1 to 16, in the order of replies; all that apply must pass", schema: mapOf(refTo("limit")),
		read: func(r *reader, n *yaml.Node, d *definition) { d.limits = r.limits(n) },
		block: func(w *writer, indent string, d *definition) {
			if !d.dialect {
				w.line(indent, "limits:")
				w.limits(indent+"  ", d.limits)
			}
		}},
	{key: "overrides", value: "[override, …]", about: "other numbers for some callers; of those that match and name a limit, the first counts", schema: listOf(refTo("override")),
		read:  func(r *reader, n *yaml.Node, d *definition) { d.overrides = r.overrides(n) },
		parts: func(d *definition) []field { return overrideFields(d.overrides) },
		block: func(w *writer, indent string, d *definition) {
			if len(d.overrides) > 0 {
				w.line(indent, "overrides:")
				w.overrides(indent+"  ", d.overrides)
			}
		}},
	{key: "descriptors", value: "[descriptor, …]", about: "in place of limits, in the dialect of Envoy's rate limit service: see envoy.md", schema: schema{"type": "array", "items": refTo("descriptor")},
		read: func(r *reader, n *yaml.Node, d *definition) { d.dialect, d.descriptors = true, r.descriptors(n, 1) },
		block: func(w *writer, indent string, d *definition) {
			if d.dialect {
				w.descriptors(indent, d.descriptors)
			}
		}},
	{key: "home", later: laterHome},
	{key: "then", later: laterCredit},
	{key: "replay", later: laterReplay},
	{key: "cel", later: laterExpression},
}

var limitEntries = []entry[limitDef]{
	{key: "by", value: "attribute | a|b | {ip: {v4: n, v6: n}}, or a list of up to 4", none: "one counter for all", about: "whose counter it is: `a|b` is the first that is present; addresses count by /32 and /64 unless they say otherwise", schema: bySchema,
		read:  func(r *reader, n *yaml.Node, l *limitDef) { l.by = r.by(n) },
		print: func(l *limitDef) string { return byText(l.by) }, effect: NewKeys},
	{key: "rate", value: "amount/period [burst amount] | unlimited | blocked", about: "how much: 100/m, 1000/1h, 5/90s, 100/s burst 200, with a calendar 500_000/month; exactly one of rate, tiers and concurrent", schema: rateSchema,
		read:  func(r *reader, n *yaml.Node, l *limitDef) { l.rate = r.rateOnly(n) },
		print: func(l *limitDef) string { return said(l.Algorithm != Concurrent, l.rate.String()) }, effect: NewNumbers},
	{key: "tiers", value: "{attribute: name, tier: rate, …, default: rate}", about: "a rate, a number of concurrent calls, or {rate | concurrent, mode, cost}, for each value of an attribute; `default` is for callers of no other tier", schema: tiersSchema,
		read:  func(r *reader, n *yaml.Node, l *limitDef) { l.tiers = r.tiers(n) },
		print: func(l *limitDef) string { return l.tiers.String() }, effect: NewNumbers},
	{key: "concurrent", value: "number | unlimited | blocked", about: "how many calls may run at once, 1 to 4096: each holds `cost` slots until its hold is settled; tiers that are numbers make a limit one of these too", schema: slotsSchema,
		read:  func(r *reader, n *yaml.Node, l *limitDef) { l.rate = r.slots(n) },
		print: func(l *limitDef) string { return said(l.Algorithm == Concurrent, l.rate.String()) }, effect: NewNumbers},
	{key: "ttl", value: "duration, 1s to 1h", none: "that of `hold`", about: "for how long a call holds its slots, of concurrent calls, unless RL.RESERVE says so", schema: durationSchema,
		read:  func(r *reader, n *yaml.Node, l *limitDef) { l.ttl = r.between(n, MinHoldTTL, MaxHoldTTL) },
		print: func(l *limitDef) string { return duration(l.ttl) }},
	{key: "when", value: "condition", none: "always", about: "for which calls the limit is", schema: refTo("condition"),
		read:  func(r *reader, n *yaml.Node, l *limitDef) { l.when = r.condition(n) },
		print: func(l *limitDef) string { return said(len(l.when) > 0, l.when.String()) }},
	{key: "algorithm", value: "token | leaky | fixed | sliding | log", none: "token", about: "how it counts: see algorithms.md", schema: wordsOf(algorithms[:Calendar]...),
		read: func(r *reader, n *yaml.Node, l *limitDef) { word(r, n, algorithms[:Calendar], &l.Algorithm) },
		print: func(l *limitDef) string {
			return said(l.Algorithm != Token && l.Algorithm < Calendar, l.Algorithm.String())
		}, effect: NewKind},
	{key: "align", value: "epoch | first", none: "epoch", about: "where windows begin, of fixed and sliding: at multiples of the period since 1970, or at the first call", schema: wordsOf(aligns[:]...),
		read:  func(r *reader, n *yaml.Node, l *limitDef) { word(r, n, aligns[:], &l.Align) },
		print: func(l *limitDef) string { return said(l.Align != Epoch, l.Align.String()) }, effect: NewNumbers},
	{key: "calendar", value: "zone | {zone, anchor, at}", about: "counts in the days, weeks, months, quarters or years of a zone, as the rates say: a fixed window of its own, without algorithm and align", schema: anyOf(zoneSchema, refTo("calendar")),
		read:  func(r *reader, n *yaml.Node, l *limitDef) { l.calendar = r.calendar(n) },
		print: func(l *limitDef) string { return l.calendar.String() }, effect: NewKind},
	{key: "mode", value: "enforce | soft | shadow | off", none: "enforce", about: "soft counts all that passes and tells when it is over; shadow counts as if it were enforced and denies nothing", schema: wordsOf(modes[:]...),
		read:  func(r *reader, n *yaml.Node, l *limitDef) { word(r, n, modes[:], &l.mode) },
		print: func(l *limitDef) string { return said(l.mode != Enforce, l.mode.String()) }},
	{key: "cost", value: "number | attribute", none: "1", about: "units of a call: a number, which COST multiplies, or the attribute that has it", schema: costSchema,
		read:  func(r *reader, n *yaml.Node, l *limitDef) { l.cost = r.cost(n) },
		print: func(l *limitDef) string { return said(l.cost.attribute != "" || l.cost.constant != 1, l.cost.String()) }},
	{key: "wait", value: "duration", about: "how long a call may be made to wait, of token and leaky: 1500ms", schema: durationSchema,
		read:  func(r *reader, n *yaml.Node, l *limitDef) { l.wait = r.wait(n) },
		print: func(l *limitDef) string { return waitText(l.wait) }},
	{key: "missing", value: "skip | deny", none: "skip", about: "a call without an attribute of `by` or `cost`: the limit does not apply, or denies", schema: wordsOf(missings...),
		read:  func(r *reader, n *yaml.Node, l *limitDef) { wordBool(r, n, missings, &l.MissingDenies) },
		print: func(l *limitDef) string { return said(l.MissingDenies, missings[1]) }},
	{key: "status", value: "429 | 503 | 403", none: "429, and 403 for a denial that no wait ends", about: "the HTTP status of a denial", schema: schema{"enum": []int{429, 503, 403}},
		read:  func(r *reader, n *yaml.Node, l *limitDef) { l.Status = r.status(n) },
		print: func(l *limitDef) string { return number(int64(l.Status)) }},
	{key: "penalty", value: "{after, within, block, factor, max}", about: "blocks a caller whom the limit denies again and again", schema: refTo("penalty"),
		read:  func(r *reader, n *yaml.Node, l *limitDef) { l.penalty = r.penalty(n) },
		print: func(l *limitDef) string { return l.penalty.String() }},
	{key: "count", value: "admitted | all", none: "admitted", about: "all: calls that are denied, by this limit or another, count too", schema: wordsOf(counts...),
		read:  func(r *reader, n *yaml.Node, l *limitDef) { wordBool(r, n, counts, &l.CountAll) },
		print: func(l *limitDef) string { return said(l.CountAll, counts[1]) }},
	{key: "debt", value: "number", none: "0", about: "how many units below nothing a call may take it", schema: wholeSchema(0),
		read:  func(r *reader, n *yaml.Node, l *limitDef) { l.Debt, _ = r.whole(n, 0, MaxUnits) },
		print: func(l *limitDef) string { return number(l.Debt) }},
	{key: "share", value: "10% | 10-100%", none: "100%", about: "for which part of the callers of `by` it is; who is in stays in when it grows", schema: schema{"type": "string", "pattern": `^(\d{1,3}-)?\d{1,3}%$`},
		read:  func(r *reader, n *yaml.Node, l *limitDef) { l.share = r.share(n) },
		print: func(l *limitDef) string { return said(l.share.partial(), l.share.String()) }},
	{key: "id", value: "name", none: "the limit's name", about: "what its counters are called, so that a limit can be renamed without losing them", schema: nameSchema,
		read:  func(r *reader, n *yaml.Node, l *limitDef) { l.id = r.name(n, "an id") },
		print: func(l *limitDef) string { return said(l.id != l.name, l.id) }},
	{key: "then", later: laterCredit},
	{key: "home", later: laterHome},
	{key: "replay", later: laterReplay},
	{key: "cel", later: laterExpression},
}

var (
	missings = []string{"skip", "deny"}
	counts   = []string{"admitted", "all"}
)

var calendarEntries = []entry[calendarDef]{
	{key: "zone", value: "name", about: "whose days count: UTC, Europe/Paris, as the IANA database of zones has them", schema: zoneSchema,
		read:  func(r *reader, n *yaml.Node, c *calendarDef) { r.zone(n, c) },
		print: func(c *calendarDef) string { return quote(c.rules.Zone) }},
	{key: "anchor", value: "1 to 31 | MM-DD", none: "the first", about: "the day on which months begin, quarters in their first month, and years (04-06); in a shorter month the last", schema: anyOf(schema{"type": "integer", "minimum": 1, "maximum": 31}, schema{"type": "string", "pattern": "^(\\d{1,2}|\\d\\d-\\d\\d)$"}),
		read:  func(r *reader, n *yaml.Node, c *calendarDef) { r.anchor(n, c) },
		print: func(c *calendarDef) string { return anchorText(c.rules) }},
	{key: "at", value: "HH:MM", none: "00:00", about: "the wall time at which days begin", schema: schema{"type": "string", "pattern": "^\\d\\d:\\d\\d$"},
		read:  func(r *reader, n *yaml.Node, c *calendarDef) { r.atTime(n, c) },
		print: func(c *calendarDef) string { return said(c.rules.At != 0, quote(atText(c.rules))) }},
}

var overrideEntries = []entry[overrideDef]{
	{key: "when", value: "condition", about: "for whom", schema: refTo("condition"),
		read:  func(r *reader, n *yaml.Node, o *overrideDef) { o.when = r.condition(n) },
		print: func(o *overrideDef) string { return o.when.String() }},
	{key: "limits", value: "{limit: rate, …}", about: "a rate, a number of concurrent calls, or {rate | concurrent, mode, cost}, for each limit that it changes", schema: mapOf(refTo("numbers")),
		read:  func(r *reader, n *yaml.Node, o *overrideDef) { o.limits = r.overridden(n) },
		parts: func(o *overrideDef) []field { return overriddenFields(o.limits) }},
	{key: "until", value: "time", none: "for good", about: "when it ends, such as 2026-12-31T23:00:00Z", schema: schema{"type": "string", "format": "date-time"},
		read:  func(r *reader, n *yaml.Node, o *overrideDef) { o.until = r.until(n) },
		print: func(o *overrideDef) string { return said(o.until != 0, FormatTime(o.until)) }},
}

var numbersEntries = []entry[numbersDef]{
	{key: "rate", value: "rate", about: "how much", schema: rateSchema,
		read:  func(r *reader, n *yaml.Node, x *numbersDef) { x.rate = r.rate(n) },
		print: func(x *numbersDef) string { return said(x.rate == nil || !x.rate.slots(), optional(x.rate)) }},
	{key: "concurrent", value: "number | unlimited | blocked", about: "how many calls at once, in place of a rate", schema: slotsSchema,
		read:  func(r *reader, n *yaml.Node, x *numbersDef) { x.rate = r.slots(n).rate },
		print: func(x *numbersDef) string { return said(x.rate != nil && x.rate.slots(), optional(x.rate)) }},
	{key: "mode", value: "enforce | soft | shadow | off", none: "the limit's", about: "see limit", schema: wordsOf(modes[:]...),
		read:  func(r *reader, n *yaml.Node, x *numbersDef) { x.mode = new(Mode); word(r, n, modes[:], x.mode) },
		print: func(x *numbersDef) string { return optional(x.mode) }},
	{key: "cost", value: "number | attribute", none: "the limit's", about: "see limit", schema: costSchema,
		read:  func(r *reader, n *yaml.Node, x *numbersDef) { c := r.cost(n); x.cost = &c },
		print: func(x *numbersDef) string { return optional(x.cost) }},
}

var clauseEntries = []entry[clauseDef]{
	{key: "not", value: "value, list of values, or {list: name}", about: "is present, and none of these", schema: refTo("values"),
		read: func(r *reader, n *yaml.Node, c *clauseDef) { c.test = isNone; r.clauseValues(n, c) }},
	{key: "list", value: "name", about: "is in the list", schema: listNameSchema,
		read: func(r *reader, n *yaml.Node, c *clauseDef) { c.list = r.listName(n) }},
	{key: "present", value: "true | false", about: "has a value, or has none", schema: schema{"type": "boolean"},
		read: func(r *reader, n *yaml.Node, c *clauseDef) { r.presence(n, c) }},
}

// listEntries is what may stand below `not`, beside values.
var listEntries = []entry[clauseDef]{
	{key: "list", value: "name", about: "is in the list", schema: listNameSchema,
		read: func(r *reader, n *yaml.Node, c *clauseDef) { c.list = r.listName(n) }},
}

var attributeEntries = []entry[attributeDef]{
	{key: "type", value: "ip | lower | secret | [lower, secret]", none: "a plain text", about: "ip: an address; lower: case does not count; secret: only a keyed hash is kept and shown. The attribute named ip has type ip", schema: oneOrMore(wordsOf("ip", "lower", "secret")),
		read:  func(r *reader, n *yaml.Node, a *attributeDef) { a.Type = r.types(n) },
		print: func(a *attributeDef) string { return a.typeText() }},
}

var prefixEntries = []entry[byDef]{
	{key: "v4", value: "1 to 32", none: "32", about: "bits of an IPv4 address that count", schema: schema{"type": "integer", "minimum": 1, "maximum": 32},
		read:  func(r *reader, n *yaml.Node, b *byDef) { v, _ := r.whole(n, 1, 32); b.v4 = uint8(v) },
		print: func(b *byDef) string { return number(int64(b.v4)) }},
	{key: "v6", value: "1 to 128", none: "64", about: "bits of an IPv6 address that count", schema: schema{"type": "integer", "minimum": 1, "maximum": 128},
		read:  func(r *reader, n *yaml.Node, b *byDef) { v, _ := r.whole(n, 1, 128); b.v6 = uint8(v) },
		print: func(b *byDef) string { return number(int64(b.v6)) }},
}

var routesEntries = []entry[routesDef]{
	{key: "else", value: "route", about: "what requests ask that no pattern matches", schema: refTo("route"),
		read:  func(r *reader, n *yaml.Node, d *routesDef) { d.other = r.target(n) },
		print: func(d *routesDef) string { return d.other.String() }},
	{key: "attributes", value: "{name: source, …}", about: "attributes that all routes give, unless they give one of the name themselves", schema: mapOf(refTo("source")),
		read:  func(r *reader, n *yaml.Node, d *routesDef) { d.given = r.given(n) },
		print: func(d *routesDef) string { return said(len(d.given) > 0, givenText(d.given)) }},
	{key: "encoded_slash", value: "deny | segment | separator", none: "deny", about: "what `%2F` in a path is: a part of its segment, or a slash; `deny` denies requests for which both go by different routes", schema: wordsOf(slashWords...),
		read:  func(r *reader, n *yaml.Node, d *routesDef) { word(r, n, slashWords, &d.slash) },
		print: func(d *routesDef) string { return said(d.slash != slashDenied, slashWords[d.slash]) }},
	{key: "case", value: "exact | ignore", none: "exact", about: "whether the case of letters counts in paths", schema: wordsOf(cases...),
		read:  func(r *reader, n *yaml.Node, d *routesDef) { word(r, n, cases, &d.fold) },
		print: func(d *routesDef) string { return said(d.fold != 0, cases[d.fold]) }},
	{key: "match", value: "{pattern: route, …}", about: "routes by pattern, `GET|POST api.example.com/v1/users/{id}`, without method or host for all; the most specific counts", schema: mapOf(refTo("route")),
		read:  func(r *reader, n *yaml.Node, d *routesDef) { d.routes = r.matches(n) },
		parts: func(d *routesDef) []field { return matchFields(d.routes) }},
}

var targetEntries = []entry[targetDef]{
	{key: "policy", value: "name", about: "the policy that is asked", schema: textSchema,
		read:  func(r *reader, n *yaml.Node, t *targetDef) { t.policy = r.policyName(n) },
		print: func(t *targetDef) string { return quote(t.policy) }},
	{key: "attributes", value: "{name: source, …}", about: "attributes beside ip, method, host, path and route, which every request has: route is the pattern", schema: mapOf(refTo("source")),
		read:  func(r *reader, n *yaml.Node, t *targetDef) { t.given = r.given(n) },
		print: func(t *targetDef) string { return said(len(t.given) > 0, givenText(t.given)) }},
	{key: "cost", value: "number", none: "1", about: "what a request costs, of limits whose cost is a number", schema: wholeSchema(1),
		read:  func(r *reader, n *yaml.Node, t *targetDef) { t.cost, _ = r.whole(n, 1, MaxUnits) },
		print: func(t *targetDef) string { return number(t.cost) }},
}

var sourceEntries = []entry[givenDef]{
	{key: "header", value: "name", about: "a field of the header, which has to be one that the gateway sets itself if its clients are not to make it up; given twice, the request is denied", schema: textSchema,
		read: func(r *reader, n *yaml.Node, g *givenDef) { r.source(n, FromHeader, g) }},
	{key: "cookie", value: "name", about: "a cookie, the first of its name", schema: textSchema,
		read: func(r *reader, n *yaml.Node, g *givenDef) { r.source(n, FromCookie, g) }},
	{key: "query", value: "name", about: "a parameter of the query, the first of its name", schema: textSchema,
		read: func(r *reader, n *yaml.Node, g *givenDef) { r.source(n, FromQuery, g) }},
	{key: "path", value: "name", about: "what stands for `{name}` of the pattern", schema: textSchema,
		read: func(r *reader, n *yaml.Node, g *givenDef) { r.source(n, FromPath, g) }},
}
