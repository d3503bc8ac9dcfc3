package web

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/verdict"
)

// An error says whether to ask again, and whether the call may have run.
func TestProblems(t *testing.T) {
	f := func(err error, status int, code string) {
		t.Helper()
		p := problemOf(err)
		require.Equal(t, status, p.status, err)
		require.Equal(t, code, p.code, err)
	}
	f(&verdict.Error{Code: "ERR", Text: "syntax error"}, 400, "ERR")
	f(&verdict.Error{Code: "ERR", Text: strings.TrimPrefix(command.ErrNotYet, "ERR ")}, 503, "ERR")
	f(&verdict.Error{Code: "ERR", Text: "unknown command 'RL.NEW', with args beginning with: "}, 503, "ERR")
	f(&verdict.Error{Code: "CROSSSLOT"}, 400, "CROSSSLOT")
	f(&verdict.Error{Code: "NOPOLICY"}, 404, "NOPOLICY")
	f(&verdict.Error{Code: "IDCONFLICT"}, 422, "IDCONFLICT")
	f(&verdict.Error{Code: "CLUSTERDOWN"}, 503, "CLUSTERDOWN")
	f(server.ErrBusy, 503, "BUSY")
	f(server.ErrClosed, 503, "TRYAGAIN")
	f(fmt.Errorf("x: %w", server.ErrCutOff), 503, "UNCERTAIN")
	f(context.Canceled, 503, "UNCERTAIN")
}
