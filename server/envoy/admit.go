package envoy

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/headgate-io/headgate/server/access"
)

// admit returns an error unless the client may ask for verdicts.
func (s *service) admit(ctx context.Context) error {
	if s.decider.Open(access.PortGRPC, access.RightRead, s.local) {
		return nil
	}
	p, _ := peer.FromContext(ctx)
	shown := access.Shown{Local: s.local, Address: p.Addr.String(), Certificates: access.CertificateNames(stateOf(p))}
	if values := metadata.ValueFromIncomingContext(ctx, "authorization"); len(values) == 1 {
		shown.Password, shown.HasPassword = bearer(values[0])
	}
	switch _, err := s.decider.Admit(ctx, access.PortGRPC, &shown, access.RightRead); {
	case err == nil:
		return nil
	case errors.Is(err, access.ErrNoRight):
		return status.Error(codes.PermissionDenied, "NOPERM "+err.Error())
	case errors.Is(err, access.ErrUnknownClient):
		return status.Error(codes.Unauthenticated, "NOAUTH "+err.Error())
	case errors.Is(err, access.ErrGuesses):
		connectionOf(ctx).Close() // without an answer
		return status.Error(codes.Unauthenticated, "NOAUTH "+err.Error())
	default:
		return statusOf(err)
	}
}

// bearer returns the token in an authorization.
func bearer(authorization string) (token string, ok bool) {
	scheme, token, _ := strings.Cut(authorization, " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}

// stateOf returns the TLS state of a peer; nil if there is none.
func stateOf(p *peer.Peer) *tls.ConnectionState {
	if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
		return &info.State
	}
	return nil
}
