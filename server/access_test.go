package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rights tells what something that is shown may do, as letters.
func rights(t *testing.T, c *Caller, shown Shown) (letters string) {
	t.Helper()
	for right, letter := range []string{RightRead: "r", RightSee: "s", RightWrite: "w"} {
		if _, err := c.Admit(t.Context(), PortHTTP, &shown, Right(right)); err == nil {
			letters += letter
		}
	}
	return letters
}

// Each right is opened by itself, and for those alone who show what it asks for.
func TestAccess(t *testing.T) {
	s := newTestServer(t, Config{}, nil)
	c := s.Caller()
	nothing := Shown{Address: "10.0.0.1:5"}
	bearer := func(token string) Shown { return Shown{Address: "10.0.0.1:5", Password: token, HasPassword: true} }
	basic := func(user, password string) Shown {
		return Shown{Address: "10.0.0.1:5", User: user, Password: password, HasPassword: true}
	}
	certificate := func(names ...string) Shown { return Shown{Address: "10.0.0.1:5", Certificates: names} }
	local := Shown{Local: true}
	access := func(read, see, write string) (a Access) {
		a.Tokens = [rightCount]string{read, see, write}
		return a
	}
	named := Access{Certificates: [rightCount][]string{RightRead: {"gate"}, RightSee: {"eye"}, RightWrite: {"ci", "ops"}}}
	for name, tt := range map[string]struct {
		runtime Runtime
		port    Access
		want    map[string]Shown
	}{
		"nothing set": {want: map[string]Shown{"rs": nothing, "rsw": local}},
		"tokens": {port: access("R", "S", "W"), want: map[string]Shown{
			"": nothing, "r": bearer("R"), "s": bearer("S"), "sw": bearer("W")}},
		"tokens at loopback":    {port: access("R", "S", "W"), want: map[string]Shown{"": local}},
		"a token is of no user": {port: access("R", "S", "W"), want: map[string]Shown{"": basic("default", "R")}},
		"one token for two":     {port: access("R", "R", "W"), want: map[string]Shown{"rs": bearer("R"), "": bearer("")}},
		"read alone":            {port: access("R", "", ""), want: map[string]Shown{"s": local, "rs": bearer("R")}},
		"see alone":             {port: access("", "S", ""), want: map[string]Shown{"r": local, "rs": bearer("S")}},
		"write alone":           {port: access("", "", "W"), want: map[string]Shown{"rs": local, "rsw": bearer("W")}},
		"names":                 {port: named, want: map[string]Shown{"": certificate("other"), "r": certificate("x", "gate"), "s": certificate("eye"), "sw": certificate("ops"), "rs": certificate("gate", "eye")}},
		"a password": {runtime: Runtime{RequirePass: "P"}, want: map[string]Shown{
			"": local, "rsw": bearer("P")}},
		"a password by its user": {runtime: Runtime{RequirePass: "P"}, want: map[string]Shown{
			"rsw": basic("default", "P"), "": basic("bob", "P")}},
		"two passwords": {runtime: Runtime{RequirePass: "P", AdminPass: "A"}, want: map[string]Shown{
			"rs": bearer("P"), "rsw": bearer("A"), "": basic("default", "A")}},
		"admin's alone":         {runtime: Runtime{AdminPass: "A"}, want: map[string]Shown{"rs": local, "rsw": basic("admin", "A")}},
		"admin's not default's": {runtime: Runtime{RequirePass: "P", AdminPass: "A"}, want: map[string]Shown{"": basic("admin", "P")}},
		"a password and tokens": {runtime: Runtime{RequirePass: "P"}, port: access("R", "", "W"), want: map[string]Shown{
			"rsw": bearer("P"), "r": bearer("R"), "sw": bearer("W")}},
	} {
		tt.runtime.Access[PortHTTP] = tt.port
		s.Configure(tt.runtime)
		s.logins = loginGuard{} // not for this
		for want, shown := range tt.want {
			require.Equal(t, want, rights(t, c, shown), "%s: %+v", name, shown)
		}
	}
	// Another port has its own.
	s.Configure(Runtime{Access: [portCount]Access{PortGRPC: access("R", "", "")}})
	require.True(t, c.Open(PortHTTP, RightRead, false))
	require.False(t, c.Open(PortGRPC, RightRead, false))
	require.False(t, c.Seen(PortHTTP))
	s.Configure(Runtime{Access: [portCount]Access{PortHTTP: access("", "S", "")}})
	require.True(t, c.Seen(PortHTTP))
}

// Who is admitted has a name, for the author of a change.
func TestAdmittedNames(t *testing.T) {
	s := newTestServer(t, Config{}, nil)
	s.Configure(Runtime{RequirePass: "P", AdminPass: "A", Access: [portCount]Access{PortHTTP: {
		Tokens: [rightCount]string{RightWrite: "W"}, Certificates: [rightCount][]string{RightWrite: {"ci"}},
	}}})
	for want, shown := range map[string]Shown{
		"admin http at 1.2.3.4:5":     {Password: "A", HasPassword: true},
		"token write at 1.2.3.4:5":    {Password: "W", HasPassword: true},
		"certificate ci at 1.2.3.4:5": {Certificates: []string{"x", "ci"}},
	} {
		shown.Address = "1.2.3.4:5"
		who, err := s.Caller().Admit(t.Context(), PortHTTP, &shown, RightWrite)
		require.NoError(t, err)
		require.Equal(t, want, author(who.User, who.Name, who.Addr))
	}
	_, err := s.Caller().Admit(t.Context(), PortHTTP, &Shown{Password: "P", HasPassword: true}, RightWrite)
	require.ErrorIs(t, err, ErrNoRight)
	_, err = s.Caller().Admit(t.Context(), PortHTTP, &Shown{}, RightWrite)
	require.ErrorIs(t, err, ErrUnknownClient)
}

// What is wrong is answered late, and where too much is, not at all.
func TestGuessesOfTokens(t *testing.T) {
	s := newTestServer(t, Config{}, nil)
	c := s.Caller()
	s.Configure(Runtime{Access: [portCount]Access{PortHTTP: {Tokens: [rightCount]string{RightRead: "R"}}}})
	wrong := &Shown{Password: "x", HasPassword: true}
	began := time.Now()
	_, err := c.Admit(t.Context(), PortHTTP, wrong, RightRead)
	require.ErrorIs(t, err, ErrUnknownClient)
	require.GreaterOrEqual(t, time.Since(began), loginDelay)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for err = nil; err != ErrGuesses; {
		_, err = c.Admit(ctx, PortHTTP, wrong, RightRead)
		require.Error(t, err)
	}
	_, err = c.Admit(t.Context(), PortHTTP, &Shown{Password: "R", HasPassword: true}, RightRead)
	require.NoError(t, err, "the right one is not kept waiting")
}

// An address may be wrong so often; then nothing that it shows is looked at for a while,
// but for what it has shown last, and certificates.
func TestGuessesAnsweredAtOnce(t *testing.T) {
	s := newTestServer(t, Config{}, nil)
	c := s.Caller()
	s.Configure(Runtime{Access: [portCount]Access{PortHTTP: {
		Tokens: [rightCount]string{RightRead: "R"}, Certificates: [rightCount][]string{RightRead: {"gate"}},
	}}})
	admit := func(address, token string, certificates ...string) error {
		shown := Shown{Address: address, Password: token, HasPassword: true, Certificates: certificates}
		_, err := c.AdmitAtOnce(PortHTTP, &shown, RightRead)
		return err
	}
	const address = "10.0.0.1:5"
	for range 3 * guessBurst { // a gateway whose token is old
		require.ErrorIs(t, admit(address, "old"), ErrUnknownClient)
	}
	require.NoError(t, admit(address, "R"))
	failures := s.stats.counts[countAuthFailures].Load()
	guessed := 0
	for admit(fmt.Sprintf("10.0.0.1:%d", guessed+1), fmt.Sprint("guess", guessed)) != ErrGuesses { // it has one more each guessPace
		guessed++
		require.Less(t, guessed, 10_000, "guesses have no bound")
	}
	require.GreaterOrEqual(t, guessed, guessBurst-1)
	require.EqualValues(t, guessed+1, s.stats.counts[countAuthFailures].Load()-failures)
	other := "10.0.0.2:5"
	for i := 3; slotOf(other) == slotOf(address); i++ {
		other = fmt.Sprintf("10.0.0.%d:5", i)
	}
	require.NoError(t, admit(other, "R"), "of another address")
	require.NoError(t, admit(address, "x", "gate"), "a certificate is no guess")
	require.Eventually(t, func() bool { return admit(address, "R") == nil }, patience, time.Millisecond)
	for i := range 20 {
		require.Equal(t, slotOf("[2001:db8::1]:5"), slotOf(fmt.Sprintf("[2001:db8::%x:1]:%d", i, i)), "one network")
	}

	// What is left at one moment, exactly.
	var g guesses
	now := time.Now()
	guess := func(i int) *Shown { return &Shown{Address: address, Password: fmt.Sprint(i), HasPassword: true} }
	for i := range guessBurst {
		require.True(t, g.left(guess(i), now), i)
		g.fail(guess(i), now)
	}
	require.False(t, g.left(guess(guessBurst), now))
	require.True(t, g.left(guess(guessBurst-1), now), "once more")
	require.False(t, g.left(guess(guessBurst), now.Add(guessPace-1)))
	require.True(t, g.left(guess(guessBurst), now.Add(guessPace)))
}

// Only a certificate that was verified has names.
func TestCertificateNames(t *testing.T) {
	require.Empty(t, CertificateNames(nil))
	leaf := &x509.Certificate{Subject: pkix.Name{CommonName: "ci"}, DNSNames: []string{"ci.example.com"}}
	require.Empty(t, CertificateNames(&tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}))
	require.Equal(t, []string{"ci", "ci.example.com"}, CertificateNames(&tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{leaf}}}))
}
