package server

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
)

// A file is loaded as one change; what it dropped is deleted, what is in it nobody
// else changes, and what others have set stays.
func TestAFileOfPolicies(t *testing.T) {
	r := newRig(t, engine.Config{})
	offer := func(node, text string) PolicyFile {
		t.Helper()
		f, err := r.s.OfferPolicies(context.Background(), node, "/etc/"+node+".yaml", []byte(text))
		require.NoError(t, err)
		return f
	}
	const one = `{lists: {bad: [mallory]}, policies: {a: {limits: {l: {rate: 10/h}}}, b: {limits: {l: {rate: 20/h}}}}}`
	const two = `{policies: {b: {limits: {l: {rate: 30/h}}}, c: {limits: {l: {rate: 40/h}}}}}`
	r.setPolicy("mine", `{limits: {l: {rate: 5/h}}}`)
	r.setPolicy("b", `{limits: {l: {rate: 15/h}}}`)
	r.allows("b COST 3", "l", "l=12")
	require.Equal(t, PolicyFile{Loaded: true, Changed: 3, InForce: true, Path: "/etc/n1.yaml", Node: "n1"}, offer("n1", one))
	r.allows("b", "l", "l=16")
	require.Equal(t, PolicyFile{InForce: true, Path: "/etc/n1.yaml", Node: "n1"}, offer("n1", one))
	require.Equal(t, "/etc/n1.yaml", pair(t, r.words("RL.POLICY GET a"), "file"))
	require.Equal(t, "node n1", pair(t, r.words("RL.POLICY GET a"), "author"))

	const refused = "-ERR the policy is in a node's file: change it there, or take it out of it: /etc/n1.yaml"
	for _, args := range [][]string{
		{"SET", "a", "{limits: {l: {rate: 11/h}}}"}, {"SET", "a", "DRYRUN", "{limits: {l: {rate: 11/h}}}"}, {"DEL", "a"}, {"DEL", "a", "RESET"},
		{"LOAD", "{policies: {a: {limits: {l: {rate: 11/h}}}}}"}, {"LOAD", "{lists: {bad: [eve]}}"}, {"ROLLBACK", "b", "1"},
	} {
		require.Equal(t, refused, format(r.parse(r.raw(append([]string{"RL.POLICY"}, args...)...))), args)
	}
	r.is("RL.POLICY RESET b", "3")
	r.allows("b", "l", "l=19")
	require.Equal(t, "/etc/n1.yaml", pair(t, r.words("RL.POLICY GET b"), "file"))
	r.is("RL.OVERRIDE SET b SCALE 50%", "OK")
	r.is("RL.OVERRIDE DEL b SCALE", "1")

	require.Equal(t, PolicyFile{Loaded: true, Changed: 4, InForce: true, Path: "/etc/n2.yaml", Node: "n2"}, offer("n2", two))
	r.is("RL.CHECK a", "-NOPOLICY there is no policy 'a'")
	r.is("RL.POLICY GET lists/bad", "nil")
	r.allows("b", "l", "l=28")
	r.allows("mine", "l", "l=4")
	require.False(t, r.s.Policies().FileDiffers)
	require.Equal(t, PolicyFile{Path: "/etc/n2.yaml", Node: "n2"}, offer("n1", one), "not what is newer")
	require.True(t, r.s.Policies().FileDiffers)
	r.setPolicy("a", `{limits: {l: {rate: 1/h}}}`) // no file has it any more

	_, err := r.s.OfferPolicies(context.Background(), "n1", "/etc/n1.yaml", []byte("{policies: {a: {limit: {}}}}"))
	require.ErrorContains(t, err, "/etc/n1.yaml:1:17: policies.a: unknown key")
	r.is("RL.POLICY FILE n1  text", "-ERR wrong number of arguments for 'rl.policy|file' command")
}
