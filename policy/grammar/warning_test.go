package grammar_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy/grammar"
	"github.com/headgate-io/headgate/policy/policytest"
)

func TestWarnings(t *testing.T) {
	f := func(overrides string, want ...string) {
		t.Helper()
		r := policytest.Record(t, "p", "limits: {l: {rate: 1/s}, m: {rate: 1/s}}\noverrides:\n- "+strings.ReplaceAll(overrides, "; ", "\n- "))
		lines := []string{}
		for _, w := range grammar.Warnings(r, nil) {
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

	r := policytest.Record(t, "p", "attributes: {u: {type: lower}, v: {type: lower}}\nlists: {a: [x], b: [y]}\nlimits: {l: {rate: 1/s, when: {u: {list: b}}}}")
	require.Len(t, grammar.Warnings(r, nil), 2)
	require.EqualError(t, grammar.Warnings(r, nil)[0], `p.yaml:1:32: attributes.v: nothing uses the attribute "v"`)
	require.EqualError(t, grammar.Warnings(r, nil)[1], `p.yaml:2:9: lists.a: nothing uses the list "a"`)
	r = policytest.Record(t, "p", "descriptors:\n- {key: a, rate_limit: {unit: day, requests_per_unit: 1, name: x, replaces: [{name: y}, {name: z}]}}\n"+
		"- {key: b, descriptors: [{key: c, rate_limit: {unit: day, requests_per_unit: 1, name: y, replaces: [{name: x}]}}]}\n- {key: d, rate_limit: {unit: day, requests_per_unit: 1, name: z}}")
	require.Len(t, grammar.Warnings(r, nil), 2)
	require.EqualError(t, grammar.Warnings(r, nil)[0], `p.yaml:2:24: descriptors[0].rate_limit: and "x" replace each other: neither applies to a request that matches both, as with envoyproxy/ratelimit`)
	require.ErrorContains(t, grammar.Warnings(r, nil)[1], `p.yaml:3:`)
	records, err := grammar.ParseFile("", []byte(everything))
	require.NoError(t, err)
	require.Empty(t, grammar.Warnings(records[3], records[0]))
}

func TestWarningsOfForgottenAttributes(t *testing.T) {
	shared, err := grammar.ParseRecord("f", "attributes", []byte("{api_key: {type: secret}}"))
	require.NoError(t, err)
	f := func(text string, want ...string) {
		t.Helper()
		lines := []string{}
		for _, w := range grammar.Warnings(policytest.Record(t, "p", text), shared) {
			lines = append(lines, w.Error())
		}
		require.Equal(t, append([]string{}, want...), lines)
	}
	const optional = "limit %q does not apply to a call without the attribute %q, and such a call may pass without any limit: write `require` in the policy, or `missing: deny` in the limit"
	f("limits: {u: {by: user, rate: 1/s}}", "p.yaml:1:10: "+fmt.Sprintf(optional, "u", "user"))
	f("limits: {u: {by: [tenant, user|ip], rate: 1/s}}\nrequire: tenant", "p.yaml:1:10: "+fmt.Sprintf(optional, "u", "user|ip"))
	f("limits: {u: {by: [tenant, user|ip], rate: 1/s}}\nrequire: [tenant, ip]")
	f("limits: {u: {rate: 1/s, cost: tokens}}", "p.yaml:1:10: "+fmt.Sprintf(optional, "u", "tokens"))
	f("limits: {u: {by: user, rate: 1/s, missing: deny}}")
	f("limits: {u: {by: user, rate: 1/s}, all: {rate: 9/s}}")
	f("limits: {u: {by: user, rate: 1/s, when: {method: POST}}}")

	const credential = "the attribute %[1]q looks like a credential, and RL.TOP shows its values: write `attributes: {%[1]s: {type: secret}}`"
	for _, name := range []string{"key", "x_key", "auth_token", "authorization", "session_cookie"} {
		f("limits: {k: {by: "+name+", rate: 1/s}}\nrequire: "+name, "p.yaml:1:18: limits.k.by: "+fmt.Sprintf(credential, name))
		f("limits: {k: {by: " + name + ", rate: 1/s}}\nrequire: " + name + "\nattributes: {" + name + ": {type: secret}}")
	}
	f("limits: {k: {by: api_key, rate: 1/s}}\nrequire: api_key")
	f("limits: {k: {by: keyboard, rate: 1/s}}\nrequire: keyboard")
}
