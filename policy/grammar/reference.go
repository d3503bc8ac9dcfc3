package grammar

import (
	"fmt"
	"strings"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/route"
)

// Reference returns the reference of the grammar, in Markdown: one table for each
// mapping, from the tables that the parser uses.
func Reference() string {
	var b strings.Builder
	section(&b, "A file", "", fileEntries)
	section(&b, "A policy", "The keys of one policy. Either `limits` or `descriptors` is required. With `descriptors` only `on_failure`, `backstop` and `durability` are allowed.", policyEntries)
	section(&b, "A hold", "", holdEntries)
	section(&b, "A limit", "Exactly one of `rate`, `tiers` and `concurrent` is needed.", limitEntries)
	section(&b, "A calendar", "Days begin at the first instant of the day in the zone, or at the time `at`. Weeks begin on Monday, quarters in January. All rates of the limit have the same period: `day`, `week`, `month`, `quarter` or `year`. If an edit makes all rates `unlimited` or `blocked`, the counters keep the period that they had. `calendar: UTC` is short for `{zone: UTC}`.", calendarEntries)
	section(&b, "A penalty", "A denial counts as a strike if this limit denied the call, is enforced, and the call could pass later. `PEEK`, calls of cost 0 and calls that can never pass (a retry of -1) do not count. While a caller is blocked, every call is denied, and no limit counts it. Times are 1ms to 366d. On a limit with a calendar a day is 24 hours, a month 31 days, a quarter 92 and a year 366.", penaltyEntries)
	section(&b, "An override", "`when` and `limits` are needed.", overrideEntries)
	section(&b, "Numbers", "Instead of a rate, a tier or an override of a limit can have these keys.", numbersEntries)
	section(&b, "A condition", "A condition is a mapping. It maps each attribute to a value, to a list of values, or to a mapping with one of the keys below. All attributes must match. Of a list, one value must match. A value is the exact text, in which `*` matches any characters and `\\*` a star. For attributes of type ip a value is an address or a CIDR.", clauseEntries)
	section(&b, "An attribute", "", attributeEntries)
	section(&b, "A prefix", "For an attribute of type ip in `by`: how many bits of an address distinguish callers.", prefixEntries)
	section(&b, "A descriptor", "Descriptors replace limits. They are written in the configuration language of Envoy's rate limit service. `key` is required. In a level, each combination of `key` and `value` can occur once.", descriptorEntries)
	section(&b, "A limit of a descriptor", "Either `unit` or `unlimited` is needed.", rateLimitEntries)
	section(&b, "A replaced limit", "", replacedEntries)
	section(&b, "Routes", "The keys of one set of routes. `else` is required. [gateways.md](gateways.md#routes) describes patterns, and which of them is the most specific.", routesEntries)
	section(&b, "A route", "A route is the name of a policy, `allow`, `deny`, or a mapping with `policy`.", targetEntries)
	section(&b, "A source", "A source says where the value of an attribute comes from. It is a text, which is the value itself, or a mapping with one of the keys below. If a request does not have the value, the attribute is absent.", sourceEntries)
	b.WriteString("## Rates and bounds\n\n")
	fmt.Fprintf(&b, "A rate is `amount/period`, `unlimited` (the limit does not apply) or `blocked` (it denies every call). For token and leaky, `burst amount` can follow: `100/minute burst 20`. An amount is 1 to %d, and can have `_` between its digits. A period is second, minute, hour, day, week, or a duration. With a calendar it is day, week, month, quarter or year. A duration is one or more whole numbers with the units ns us ms s m h d w: `90s`, `1h30m`. A period of `1h` can be written `h`.\n\n", int64(policy.MaxUnits))
	fmt.Fprintf(&b, "| bound | |\n|---|---|\n")
	for _, x := range []struct {
		what string
		n    int
	}{
		{"policies", policy.MaxPolicies}, {"limits of a policy", policy.MaxLimits}, {"parts of `by`", policy.MaxBy},
		{"attributes of a policy, and of a call", policy.MaxAttributes}, {"bytes of a value in a call", policy.MaxValue},
		{"bytes of a policy's text", MaxText}, {"bytes of a file", MaxFile}, {"entries of a list", MaxListed}, {"slots of a limit of concurrent calls", policy.MaxSlots},
		{"levels of descriptors", maxLevels}, {"patterns of a level of descriptors", maxWildcards}, {"bytes of a request that patterns of descriptors compare", policy.MaxCompared}, {"descriptors of a request", policy.MaxDescriptors}, {"entries of a descriptor of a request", policy.MaxEntries}, {"bytes of the key of an entry", policy.MaxEntryKey},
		{"sets of routes", policy.MaxRouteSets}, {"routes of a set, by method", route.MaxPatterns}, {"bytes of a set of routes", MaxRoutesText}, {"attributes that a route gives", policy.MaxGiven},
	} {
		fmt.Fprintf(&b, "| %s | %d |\n", x.what, x.n)
	}
	return b.String()
}

// section writes the table of a mapping.
func section[T any](b *strings.Builder, title, about string, entries []entry[T]) {
	fmt.Fprintf(b, "## %s\n\n", title)
	if about != "" {
		fmt.Fprintf(b, "%s\n\n", about)
	}
	b.WriteString("| key | value | without it | |\n|---|---|---|---|\n")
	var later []string
	for i := range entries {
		e := &entries[i]
		if e.later != "" {
			later = append(later, "`"+e.key+"`: "+e.later)
			continue
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", e.key, code(e.value), e.none, cells(e.about))
	}
	b.WriteByte('\n')
	if len(later) > 0 {
		fmt.Fprintf(b, "These keys are refused:\n\n- %s.\n\n", strings.Join(later, "\n- "))
	}
}

// code writes the possible values of a key.
func code(s string) string { return "`" + cells(s) + "`" }

// cells escapes characters that would end a cell of a table.
func cells(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
