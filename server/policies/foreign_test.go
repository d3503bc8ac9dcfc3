package policies_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/rig"
	"github.com/headgate-io/headgate/policy"
)

// plant stores records of policies as another version of Headgate would.
func plant(r *rig.Rig, records ...engine.PolicyRecord) {
	r.T.Helper()
	sess := r.Engine.NewSession()
	defer sess.Close()
	err := sess.EditPolicies(func(func(string) []byte) ([]engine.PolicyRecord, error) { return records, nil })
	require.NoError(r.T, err)
}

// A record that this node does not understand can be replaced and deleted by every
// command that changes policies, and its version goes on.
func TestForeignPoliciesAreReplaced(t *testing.T) {
	const text = `{limits: {l: {rate: 10/h}}}`
	foreign := map[string]string{
		"newer format":   `{"format":3,"version":7,"revision":7,"epochs":{"l":{"Reset":6}},"text":"{limits: {l: {rate: 10/h}}}"}`,
		"another field":  `{"format":2,"version":7,"revision":7,"epochs":{"l":{"Reset":6}},"scope":"eu","text":"{limits: {l: {rate: 10/h}}}"}`,
		"unknown text":   `{"format":2,"version":7,"revision":7,"epochs":{"l":{"Reset":6}},"text":"{limits: {l: {rapidity: 10/h}}}"}`,
		"of a file":      `{"format":3,"version":7,"revision":7,"epochs":{"l":{"Reset":6}},"file":"/etc/p.yaml","text":"{limits: {l: {rate: 10/h}}}"}`,
		"no JSON at all": "\x03\x00",
	}
	changes := map[string][]string{
		"SET":      {"RL.POLICY", "SET", "p", text},
		"reset":    {"RL.POLICY", "SET", "p", "CHANGE", "reset", text},
		"LOAD":     {"RL.POLICY", "LOAD", "{policies: {p: " + text + "}}"},
		"ROLLBACK": {"RL.POLICY", "ROLLBACK", "p", "1"},
		"DEL":      {"RL.POLICY", "DEL", "p"},
		"DEL all":  {"RL.POLICY", "DEL", "p", "RESET"},
	}
	for kind, record := range foreign {
		for name, args := range changes {
			t.Run(kind+"/"+name, func(t *testing.T) {
				r := rig.New(t, engine.Config{})
				r.SetPolicy("p", text)
				for version := 2; version <= 7; version++ {
					r.Is("RL.POLICY RESET p", strconv.Itoa(version))
				}
				r.Allows("p COST 4", "l", "l=6")
				plant(r, engine.PolicyRecord{Name: "p", Value: []byte(record)})
				require.Contains(t, rig.Format(r.Words("RL.CHECK p")), "-ERR policy 'p' cannot be read by this node")
				if kind != "unknown text" { // which GET shows
					require.Contains(t, rig.Format(r.Words("RL.POLICY GET p")), "-ERR policy 'p' cannot be read by this node")
				}

				got := rig.Format(r.Parse(r.Raw(args...)))
				require.False(t, strings.HasPrefix(got, "-"), got)
				if strings.HasPrefix(name, "DEL") {
					r.Is("RL.CHECK p", "-NOPOLICY there is no policy 'p'")
					r.SetPolicy("p", text)
				}
				require.EqualValues(t, 1, r.Check("p").Allowed, "whatever its counters were charged under")
				require.Greater(t, rig.Pair(t, r.Words("RL.POLICY GET p"), "version"), int64(7))
			})
		}
	}
}

// A file of policies replaces records and the note of files that this node does not
// understand.
func TestAFileReplacesForeignPolicies(t *testing.T) {
	const file = `{policies: {p: {limits: {l: {rate: 10/h}}}}}`
	r := rig.New(t, engine.Config{})
	plant(r,
		engine.PolicyRecord{Name: "p", Value: []byte(`{"format":3,"version":4,"revision":5,"text":"{limits: {}}"}`)},
		engine.PolicyRecord{Name: "old", Value: []byte(`{"format":3,"version":1,"revision":5,"file":"/etc/p.yaml","text":""}`)},
		engine.PolicyRecord{Name: "~file", Value: []byte(`{"format":3}`)},
		engine.PolicyRecord{Name: "~revision", Value: []byte("5")},
	)
	f, err := r.Server.OfferPolicies(context.Background(), "n1", "/etc/p.yaml", []byte(file))
	require.NoError(t, err)
	require.True(t, f.Loaded && f.InForce, "%+v", f)
	r.Allows("p", "l", "l=9")
	r.Is("RL.CHECK old", "-NOPOLICY there is no policy 'old'")
}

// An override that this node does not understand can be replaced and deleted.
func TestForeignOverridesAreReplaced(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("p", `{limits: {l: {rate: 10/h}}}`)
	r.Is("RL.OVERRIDE SET p SCALE 50%", "OK")
	o := policy.Override{Policy: "p", Kind: policy.OverrideScale}
	id := sha256.Sum256([]byte(o.ID()))
	name := "~override/p/" + hex.EncodeToString(id[:16])
	require.NotNil(t, r.Engine.PolicyRecord(name))
	for _, change := range []string{"SET p SCALE 50%", "DEL p SCALE"} {
		plant(r, engine.PolicyRecord{Name: name, Value: []byte{200, 1, 2}})
		require.Contains(t, rig.Format(r.Words("RL.OVERRIDE GET p SCALE")), "-ERR")
		require.NotContains(t, rig.Format(r.Words("RL.OVERRIDE "+change)), "-")
	}
	r.Is("RL.OVERRIDE GET p SCALE", "nil")
	r.Allows("p", "l", "l=9")
}
