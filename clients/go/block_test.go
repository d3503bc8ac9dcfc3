package headgate

import (
	"context"
	"testing"
	"time"
)

// Units that All has lent stay away if their block went back to the server meanwhile: the
// server counts them as spent.
func TestALoanDoesNotOutliveItsBlock(t *testing.T) {
	c := New(DoerFunc(func(context.Context, ...any) (any, error) { return int64(0), nil }), Options{})
	defer c.Close(context.Background())
	e := &entry{key: "k", id: "a"}
	deadline := c.now() + time.Hour
	e.block = block{stock: 2, lent: 3, deadline: deadline}
	l := loan{e, e.id, e.block.lapses, 3}
	c.giveBack(e, c.now())
	e.block.stock, e.block.deadline = 10, deadline // the next grant
	c.settle([]loan{l}, false)
	if e.block.stock != 10 || e.block.lent != 0 {
		t.Errorf("%d units and %d lent, want 10 and 0", e.block.stock, e.block.lent)
	}
}
