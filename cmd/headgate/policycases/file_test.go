package policycases

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy/grammar"
)

// Any text is cases or an error that names the file, and a few calls of each can be
// made.
func FuzzParse(f *testing.F) {
	f.Add("cases: [{name: a, policy: p, steps: [{attributes: {user: eve}, cost: 2, expect: deny, limit: user, retry_after: 1s}]}]")
	f.Add("cases: [{name: a, domain: d, start: 2026-01-01T00:00:00Z, steps: [{descriptors: [{ip: a, b: c}, {entries: {ip: x}, hits_addend: -3, limit: 5/hour*2}], hits_addend: 4, times: 2, expect: allow, remaining: {ip: 1}}]}]")
	f.Add("cases: [{name: a, policy: p, steps: [{hold: h, expect: error, error: x}, {after: 1s, commit: h}]}]")
	records, err := grammar.ParseFile("p", []byte(`policies: {p: {limits: {user: {by: user, rate: 1/s}}}, d: {descriptors: [{key: ip, value: "x*", rate_limit: {unit: hour, requests_per_unit: 2}}]}}`))
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, text string) {
		cases, err := Parse("cases.yaml", []byte(text))
		if err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "cases.yaml:"), "%v", err)
			return
		}
		for i := range cases {
			c := &cases[i]
			for j := range c.Steps {
				s := &c.Steps[j]
				s.Times = min(s.Times, 3)
				require.NotEmpty(t, s.String())
			}
			_, _, err := Run(records, c)
			require.NoError(t, err)
		}
	})
}
