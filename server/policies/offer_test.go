package policies_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/rig"
	"github.com/headgate-io/headgate/server"
)

// A file is loaded as one change. Policies that it no longer has are deleted, nobody else
// changes those that it has, and those that others have set stay.
func TestAFileOfPolicies(t *testing.T) {
	r := rig.New(t, engine.Config{})
	offer := func(node, text string) server.PolicyFile {
		t.Helper()
		f, err := r.Server.OfferPolicies(context.Background(), node, "/etc/"+node+".yaml", []byte(text))
		require.NoError(t, err)
		return f
	}
	const one = `{lists: {bad: [mallory]}, policies: {a: {limits: {l: {rate: 10/h}}}, b: {limits: {l: {rate: 20/h}}}}}`
	const two = `{policies: {b: {limits: {l: {rate: 30/h}}}, c: {limits: {l: {rate: 40/h}}}}}`
	r.SetPolicy("mine", `{limits: {l: {rate: 5/h}}}`)
	r.SetPolicy("b", `{limits: {l: {rate: 15/h}}}`)
	r.Allows("b COST 3", "l", "l=12")
	require.Equal(t, server.PolicyFile{Loaded: true, Changed: 3, InForce: true, Path: "/etc/n1.yaml", Node: "n1"}, offer("n1", one))
	r.Allows("b", "l", "l=16")
	require.Equal(t, server.PolicyFile{InForce: true, Path: "/etc/n1.yaml", Node: "n1"}, offer("n1", one))
	require.Equal(t, "/etc/n1.yaml", rig.Pair(t, r.Words("RL.POLICY GET a"), "file"))
	require.Equal(t, "node n1", rig.Pair(t, r.Words("RL.POLICY GET a"), "author"))

	const refused = "-ERR the policy is in a node's policy file: change it there, or remove it from the file: /etc/n1.yaml"
	for _, args := range [][]string{
		{"SET", "a", "{limits: {l: {rate: 11/h}}}"}, {"SET", "a", "DRYRUN", "{limits: {l: {rate: 11/h}}}"}, {"DEL", "a"}, {"DEL", "a", "RESET"},
		{"LOAD", "{policies: {a: {limits: {l: {rate: 11/h}}}}}"}, {"LOAD", "{lists: {bad: [eve]}}"}, {"ROLLBACK", "b", "1"},
	} {
		require.Equal(t, refused, rig.Format(r.Parse(r.Raw(append([]string{"RL.POLICY"}, args...)...))), args)
	}
	r.Is("RL.POLICY RESET b", "3")
	r.Allows("b", "l", "l=19")
	require.Equal(t, "/etc/n1.yaml", rig.Pair(t, r.Words("RL.POLICY GET b"), "file"))
	r.Is("RL.OVERRIDE SET b SCALE 50%", "OK")
	r.Is("RL.OVERRIDE DEL b SCALE", "1")

	require.Equal(t, server.PolicyFile{Loaded: true, Changed: 4, InForce: true, Path: "/etc/n2.yaml", Node: "n2"}, offer("n2", two))
	r.Is("RL.CHECK a", "-NOPOLICY there is no policy 'a'")
	r.Is("RL.POLICY GET lists/bad", "nil")
	r.Allows("b", "l", "l=28")
	r.Allows("mine", "l", "l=4")
	require.False(t, r.Server.Policies().FileDiffers)
	require.Equal(t, server.PolicyFile{Path: "/etc/n2.yaml", Node: "n2"}, offer("n1", one), "not what is newer")
	require.True(t, r.Server.Policies().FileDiffers)
	r.SetPolicy("a", `{limits: {l: {rate: 1/h}}}`) // no file has it any more

	_, err := r.Server.OfferPolicies(context.Background(), "n1", "/etc/n1.yaml", []byte("{policies: {a: {limit: {}}}}"))
	require.ErrorContains(t, err, "/etc/n1.yaml:1:17: policies.a: unknown key")
	r.Is("RL.POLICY FILE n1  text", "-ERR wrong number of arguments for 'rl.policy|file' command")
}
