package policy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWarnings(t *testing.T) {
	f := func(overrides string, want ...string) {
		t.Helper()
		r := record(t, "p", "limits: {l: {rate: 1/s}, m: {rate: 1/s}}\noverrides:\n- "+strings.ReplaceAll(overrides, "; ", "\n- "))
		lines := []string{}
		for _, w := range r.Warnings() {
			lines = append(lines, w.Error())
		}
		require.Equal(t, append([]string{}, want...), lines)
	}
	const never = `p.yaml:4:31: overrides[1].limits.l: never counts: overrides[0] matches first, for limit "l"`
	f("{when: {a: x}, limits: {l: 1/s}}; {when: {a: y}, limits: {l: 2/s}}")
	f("{when: {a: x}, limits: {l: 1/s}}; {when: {a: x}, limits: {l: 2/s}}", strings.Replace(never, "31", "30", 1))
	f("{when: {a: x}, limits: {l: 1/s}}; {when: {a: x}, limits: {m: 2/s}}")
	f("{when: {a: ac*}, limits: {l: 1/s}}; {when: {a: ac}, limits: {l: 2/s}}", never)
	f("{when: {a: ac*}, limits: {l: 1/s}}; {when: {a: a*}, limits: {l: 2/s}}")
	f("{when: {a: x}, limits: {l: 1/s}}; {when: {a: x, b: y}, limits: {l: 2/s}}", strings.Replace(never, "31", "36", 1))
	f("{when: {a: x, b: y}, limits: {l: 1/s}}; {when: {a: x}, limits: {l: 2/s}}")
	f("{when: {a: [x, y]}, limits: {l: 1/s}}; {when: {a: [y, x]}, limits: {l: 2/s}}", strings.Replace(never, "31", "35", 1))
	f("{when: {a: {not: x}}, limits: {l: 1/s}}; {when: {a: {not: [x, y]}}, limits: {l: 2/s}}", strings.Replace(never, "31", "42", 1))
	f("{when: {a: {not: [x, y]}}, limits: {l: 1/s}}; {when: {a: {not: x}}, limits: {l: 2/s}}")
	f("{when: {a: {present: true}}, limits: {l: 1/s}}; {when: {a: xy}, limits: {l: 2/s}}", never)
	f("{when: {ip: 10.0.0.0/8}, limits: {l: 1/s}}; {when: {ip: 10.1.2.0/24}, limits: {l: 2/s}}", strings.Replace(never, "31", "41", 1))
	f("{when: {ip: 10.1.2.0/24}, limits: {l: 1/s}}; {when: {ip: 10.0.0.0/8}, limits: {l: 2/s}}")
	f("{when: {a: x}, limits: {l: 1/s}, until: 2030-01-01T00:00:00Z}; {when: {a: x}, limits: {l: 2/s}}")
	f("{when: {a: x}, limits: {l: 1/s}, until: 2030-01-01T00:00:00Z}; {when: {a: xy}, limits: {l: 2/s}}")

	r := record(t, "p", "attributes: {u: {type: lower}, v: {type: lower}}\nlists: {a: [x], b: [y]}\nlimits: {l: {rate: 1/s, when: {u: {list: b}}}}")
	require.Len(t, r.Warnings(), 2)
	require.EqualError(t, r.Warnings()[0], `p.yaml:1:32: attributes.v: nothing uses the attribute "v"`)
	require.EqualError(t, r.Warnings()[1], `p.yaml:2:9: lists.a: nothing uses the list "a"`)
	r = record(t, "p", "descriptors:\n- {key: a, rate_limit: {unit: day, requests_per_unit: 1, name: x, replaces: [{name: y}, {name: z}]}}\n"+
		"- {key: b, descriptors: [{key: c, rate_limit: {unit: day, requests_per_unit: 1, name: y, replaces: [{name: x}]}}]}\n- {key: d, rate_limit: {unit: day, requests_per_unit: 1, name: z}}")
	require.Len(t, r.Warnings(), 2)
	require.EqualError(t, r.Warnings()[0], `p.yaml:2:24: descriptors[0].rate_limit: replaces what replaces it, "x": a request that both are for has neither, as with envoyproxy/ratelimit`)
	require.ErrorContains(t, r.Warnings()[1], `p.yaml:3:`)
	records, err := ParseFile("", []byte(everything))
	require.NoError(t, err)
	require.Empty(t, records[3].Warnings())
}
