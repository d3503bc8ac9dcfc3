// Package grpclimit limits the calls that a server of gRPC answers.
package grpclimit

import (
	"context"
	"errors"
	"net/netip"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	headgate "github.com/headgate-io/headgate/clients/go"
)

// Options say what the interceptors do with a call. Limit or Policy is required.
type Options struct {
	// Limit is that of each client.
	Limit headgate.Limit
	// Name is that of the limit in keys: default if it is not set. Limits that differ need
	// names that differ.
	Name string
	// Key returns who the limit counts: the address of the peer if it is not set. Behind a
	// proxy it is required, since the peer is the proxy.
	Key func(ctx context.Context, method string) string

	// Policy is asked instead of a limit.
	Policy headgate.Policy
	// Attributes returns what the policy knows of a call: ip, the address of the peer, and
	// method if it is not set.
	Attributes func(ctx context.Context, method string) headgate.Attributes

	// Cost returns the units of a call: 1 if it is not set. A stream is one call.
	Cost func(ctx context.Context, method string) int64
}

// Unary returns an interceptor of calls. A denied one is RESOURCE_EXHAUSTED with RetryInfo,
// or UNAVAILABLE if Closed denied it.
func Unary(c *headgate.Client, o Options) (grpc.UnaryServerInterceptor, error) {
	l, err := newLimiter(c, o)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if err := l.admit(ctx, info.FullMethod); err != nil {
			return nil, err
		}
		return handler(ctx, request)
	}, nil
}

// Stream returns an interceptor of streams, as Unary.
func Stream(c *headgate.Client, o Options) (grpc.StreamServerInterceptor, error) {
	l, err := newLimiter(c, o)
	if err != nil {
		return nil, err
	}
	return func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		if err := l.admit(stream.Context(), info.FullMethod); err != nil {
			return err
		}
		return handler(server, stream)
	}, nil
}

type limiter struct {
	Options
	client *headgate.Client
	policy bool
}

func newLimiter(c *headgate.Client, o Options) (*limiter, error) {
	l := &limiter{o, c, o.Policy.Name != ""}
	if l.policy == (o.Limit != headgate.Limit{}) {
		return nil, errors.New("headgate: interceptors need either a limit or a policy")
	}
	if l.policy && o.Key != nil {
		return nil, errors.New("headgate: a policy has attributes, not a key")
	}
	if l.Name == "" {
		l.Name = "default"
	}
	return l, nil
}

func (l *limiter) admit(ctx context.Context, method string) error {
	d, err := l.decide(ctx, method)
	switch {
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case err != nil:
		return status.Error(codes.Internal, err.Error())
	case d.Allowed:
		return nil
	}
	s := status.New(codes.ResourceExhausted, "too many requests")
	if d.Source == headgate.Fallback && d.Limit < 0 { // closed
		s = status.New(codes.Unavailable, "the limiter is away")
	}
	if d.RetryAfter >= 0 {
		if with, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(d.RetryAfter)}); err == nil {
			s = with
		}
	}
	return s.Err()
}

func (l *limiter) decide(ctx context.Context, method string) (headgate.Decision, error) {
	cost := int64(1)
	if l.Cost != nil {
		cost = l.Cost(ctx, method)
	}
	switch {
	case l.policy && l.Attributes != nil:
		return l.client.Despite(l.client.Check(ctx, l.Policy, l.Attributes(ctx, method), cost))
	case l.Key != nil:
		return l.client.Despite(l.client.Allow(ctx, l.Name+":"+l.Key(ctx, method), l.Limit, cost))
	}
	address, err := peerAddress(ctx)
	if err != nil {
		return headgate.Decision{}, err
	}
	if l.policy {
		return l.client.Despite(l.client.Check(ctx, l.Policy, headgate.Attributes{"ip": address.String(), "method": method}, cost))
	}
	return l.client.Despite(l.client.Allow(ctx, l.Name+":"+headgate.AddressKey(address), l.Limit, cost))
}

func peerAddress(ctx context.Context) (netip.Addr, error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return netip.Addr{}, errors.New("headgate: a call has no peer: set Key, or Attributes")
	}
	a, err := netip.ParseAddrPort(p.Addr.String())
	if err != nil {
		return netip.Addr{}, errors.New("headgate: the peer of a call has no IP address: set Key, or Attributes")
	}
	return a.Addr().Unmap().WithZone(""), nil
}
