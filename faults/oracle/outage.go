package oracle

import (
	"slices"

	"github.com/headgate-io/headgate/faults/history"
)

// Outage is a time in which a node was down, or had just begun, by the run's own doing; To is 0 while it lasts.
type Outage struct {
	Node     uint8
	From, To int64
}

// Excused reports whether a call went to a node in an outage.
func Excused(c *history.Call, outages []Outage) bool {
	return slices.ContainsFunc(outages, func(o Outage) bool {
		return o.Node == c.Node && c.End >= o.From && (o.To == 0 || c.Due <= o.To)
	})
}
