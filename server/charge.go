package server

import (
	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/server/command"
)

// chargeCommands returns the command with which a node charges limits at a new leader, for
// calls that it decided while it had no leader.
func chargeCommands() []command.Spec {
	return []command.Spec{{
		Name: "rl.charge", Arity: -11, Flags: command.Write | command.Admin | command.Leader | command.Peers | command.NoMulti | command.SkipSlowlog, Categories: command.CatLimiter,
		Group: "limiter", Complexity: "O(N), N the number of charges",
		Summary: "Between nodes: charges, once, the calls that a node admitted without a leader.",
		Syntax:  "node number key algorithm rounding align limit period burst units [initial deadline] [charge ...]",
		Handler: onCall(cmdCharge),
	}}
}

// cmdCharge replies only when the charges are committed, with every durability. The node
// that sent the charges then forgets them.
func cmdCharge(c *conn, call *command.Call) {
	if !c.relayed {
		c.error("NOPERM RL.CHARGE is for the nodes of a cluster")
		return
	}
	node, number, charges, err := partition.ParseCharges(call.Args)
	if err == nil {
		err = c.lane.part.ChargeOnce(c.lane.sess, c.now(), node, number, charges)
	}
	if err != nil {
		call.Fail(err)
		return
	}
	c.w.OK()
	call.Sync = command.SyncCommit
}
