package envoy

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/fronts"
	"github.com/headgate-io/headgate/server/verdict"
)

// statusOf returns the status of a call that has no verdict.
func statusOf(err error) error {
	code := codes.Internal
	switch reply := new(verdict.Error); {
	case errors.As(err, &reply):
		if code = codeOf(reply.Code); reply.TooEarly() {
			code = codes.Unavailable
		}
	case errors.Is(err, server.ErrBusy):
		code = codes.ResourceExhausted
	case errors.Is(err, server.ErrClosed), errors.Is(err, server.ErrCutOff):
		code = codes.Unavailable
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	}
	return status.Error(code, err.Error())
}

// resultOf returns the result under which the metrics count a call with an error.
func resultOf(err error) fronts.Result {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated:
		return fronts.Refused
	}
	return fronts.Failed
}

// codeOf returns the status code for the code of an error reply.
func codeOf(code string) codes.Code {
	switch code {
	case "ERR", "CROSSSLOT":
		return codes.InvalidArgument
	case "NOPOLICY":
		return codes.NotFound
	case "BUSY", "OOM":
		return codes.ResourceExhausted
	}
	return codes.Unavailable // CLUSTERDOWN, UNCERTAIN, TRYAGAIN and other errors that pass
}
