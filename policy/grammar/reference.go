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
	section(&b, "A policy", "What stands under its name. `limits` is needed, or `descriptors`, with which only `on_failure`, `backstop` and `durability` go.", policyEntries)
	section(&b, "A hold", "", holdEntries)
	section(&b, "A limit", "Exactly one of `rate`, `tiers` and `concurrent`.", limitEntries)
	section(&b, "A calendar", "Days begin at the first instant of the day in the zone, or at the time `at`. Weeks begin on Monday, quarters in January. All rates of the limit have one period: `day`, `week`, `month`, `quarter` or `year`. If all are `unlimited` or `blocked`, counts go on in the period before. `calendar: UTC` is short for `{zone: UTC}`.", calendarEntries)
	section(&b, "A penalty", "A denial counts as a strike if this limit denied the call, is enforced, and the call could pass later. `PEEK`, calls of cost 0 and calls that can never pass (a retry of -1) do not count. While a caller is blocked, every call is denied, and no limit counts it. Times are 1ms to 366d. On a limit with a calendar a day is 24 hours, a month 31 days, a quarter 92 and a year 366.", penaltyEntries)
	section(&b, "An override", "`when` and `limits` are needed.", overrideEntries)
	section(&b, "Numbers", "What a tier, or an override of a limit, may say instead of a rate.", numbersEntries)
	section(&b, "A condition", "A mapping of attributes to a value, to a list of values, or to one of these. All attributes must match, and one value of a list. A value is the exact text. `*` stands for any run of characters, and `\\*` for a star. For attributes of type ip it is an address or a CIDR.", clauseEntries)
	section(&b, "An attribute", "", attributeEntries)
	section(&b, "A prefix", "Of an attribute of type ip, in `by`.", prefixEntries)
	section(&b, "A descriptor", "In the dialect of Envoy's rate limit service, in place of limits. `key` is needed. A level has one descriptor for each `key` and `value`.", descriptorEntries)
	section(&b, "A limit of a descriptor", "`unit` is needed, or `unlimited`.", rateLimitEntries)
	section(&b, "A replaced limit", "", replacedEntries)
	section(&b, "Routes", "What stands under the name of a set. `else` is needed. See [http.md](http.md#routes) for patterns, and which of them is the most specific.", routesEntries)
	section(&b, "A route", "The name of a policy, `allow`, `deny`, or a mapping with `policy`.", targetEntries)
	section(&b, "A source", "Where the value of an attribute is from: a text that is the value itself, or a mapping with one of these. What a request has not is absent.", sourceEntries)
	b.WriteString("## Rates and bounds\n\n")
	fmt.Fprintf(&b, "A rate is `amount/period`, `unlimited` (the limit does not apply) or `blocked` (it denies every call). For token and leaky `burst amount` may follow: `100/minute burst 20`. An amount is 1 to %d, and may have `_` between its digits. A period is second, minute, hour, day, week, or a duration. With a calendar it is day, week, month, quarter or year. A duration is whole numbers with the units ns us ms s m h d w: `90s`, `1h30m`. In a period `1h` may be written `h`.\n\n", int64(policy.MaxUnits))
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
