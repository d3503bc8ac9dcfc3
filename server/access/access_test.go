package access

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rig is a Gate with its configuration.
type rig struct {
	*Gate
	rules Rules
	wrong int
}

func newRig() *rig {
	r := &rig{rules: Rules{Grants: new([PortCount]Grants)}}
	r.Gate = New(Config{Rules: func() Rules { return r.rules }, Wrong: func() { r.wrong++ }, Logger: slog.New(slog.DiscardHandler)})
	return r
}

// configure changes the gate's configuration.
func (r *rig) configure(rules Rules, grants [PortCount]Grants) {
	rules.Grants = &grants
	r.rules = rules
}

// rights says what something that is shown may do, as letters.
func rights(t *testing.T, c *rig, shown Shown) (letters string) {
	t.Helper()
	for right, letter := range []string{RightRead: "r", RightSee: "s", RightWrite: "w"} {
		if _, err := c.Admit(t.Context(), PortHTTP, &shown, Right(right)); err == nil {
			letters += letter
		}
	}
	return letters
}

// Each right is granted by itself, and only to those who show its credentials.
func TestAccess(t *testing.T) {
	c := newRig()
	nothing := Shown{Address: "10.0.0.1:5"}
	bearer := func(token string) Shown { return Shown{Address: "10.0.0.1:5", Password: token, HasPassword: true} }
	basic := func(user, password string) Shown {
		return Shown{Address: "10.0.0.1:5", User: user, Password: password, HasPassword: true}
	}
	certificate := func(names ...string) Shown { return Shown{Address: "10.0.0.1:5", Certificates: names} }
	local := Shown{Local: true}
	access := func(read, see, write string) (a Grants) {
		a.Tokens = [RightCount]string{read, see, write}
		return a
	}
	named := Grants{Certificates: [RightCount][]string{RightRead: {"gate"}, RightSee: {"eye"}, RightWrite: {"ci", "ops"}}}
	for name, tt := range map[string]struct {
		rules Rules
		port  Grants
		want  map[string]Shown
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
		"a password": {rules: Rules{RequirePass: "P"}, want: map[string]Shown{
			"": local, "rsw": bearer("P")}},
		"a password by its user": {rules: Rules{RequirePass: "P"}, want: map[string]Shown{
			"rsw": basic("default", "P"), "": basic("bob", "P")}},
		"two passwords": {rules: Rules{RequirePass: "P", AdminPass: "A"}, want: map[string]Shown{
			"rs": bearer("P"), "rsw": bearer("A"), "": basic("default", "A")}},
		"admin's alone":         {rules: Rules{AdminPass: "A"}, want: map[string]Shown{"rs": local, "rsw": basic("admin", "A")}},
		"admin's not default's": {rules: Rules{RequirePass: "P", AdminPass: "A"}, want: map[string]Shown{"": basic("admin", "P")}},
		"a password and tokens": {rules: Rules{RequirePass: "P"}, port: access("R", "", "W"), want: map[string]Shown{
			"rsw": bearer("P"), "r": bearer("R"), "sw": bearer("W")}},
	} {
		c.configure(tt.rules, [PortCount]Grants{PortHTTP: tt.port})
		c.logins = loginGuard{} // not for this
		for want, shown := range tt.want {
			require.Equal(t, want, rights(t, c, shown), "%s: %+v", name, shown)
		}
	}
	// Another port has its own.
	c.configure(Rules{}, [PortCount]Grants{PortGRPC: access("R", "", "")})
	require.True(t, c.Open(PortHTTP, RightRead, false))
	require.False(t, c.Open(PortGRPC, RightRead, false))
	require.False(t, c.Seen(PortHTTP))
	c.configure(Rules{}, [PortCount]Grants{PortHTTP: access("", "S", "")})
	require.True(t, c.Seen(PortHTTP))
}

// Who is admitted has a name, for the author of a change.
func TestAdmittedNames(t *testing.T) {
	c := newRig()
	c.configure(Rules{RequirePass: "P", AdminPass: "A"}, [PortCount]Grants{PortHTTP: {
		Tokens: [RightCount]string{RightWrite: "W"}, Certificates: [RightCount][]string{RightWrite: {"ci"}},
	}})
	for want, shown := range map[Client]Shown{
		{User: "admin", Name: "http"}:     {Password: "A", HasPassword: true},
		{User: "token", Name: "write"}:    {Password: "W", HasPassword: true},
		{User: "certificate", Name: "ci"}: {Certificates: []string{"x", "ci"}},
	} {
		shown.Address = "1.2.3.4:5"
		who, err := c.Admit(t.Context(), PortHTTP, &shown, RightWrite)
		require.NoError(t, err)
		want.Addr = shown.Address
		require.Equal(t, want, who)
	}
	_, err := c.Admit(t.Context(), PortHTTP, &Shown{Password: "P", HasPassword: true}, RightWrite)
	require.ErrorIs(t, err, ErrNoRight)
	_, err = c.Admit(t.Context(), PortHTTP, &Shown{}, RightWrite)
	require.ErrorIs(t, err, ErrUnknownClient)
}

// Wrong credentials are answered late, and after too many not at all.
func TestGuessesOfTokens(t *testing.T) {
	c := newRig()
	c.configure(Rules{}, [PortCount]Grants{PortHTTP: {Tokens: [RightCount]string{RightRead: "R"}}})
	wrong := &Shown{Password: "x", HasPassword: true}
	began := time.Now()
	_, err := c.Admit(t.Context(), PortHTTP, wrong, RightRead)
	require.ErrorIs(t, err, ErrUnknownClient)
	require.GreaterOrEqual(t, time.Since(began), LoginDelay)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for err = nil; err != ErrGuesses; {
		_, err = c.Admit(ctx, PortHTTP, wrong, RightRead)
		require.Error(t, err)
	}
	_, err = c.Admit(t.Context(), PortHTTP, &Shown{Password: "R", HasPassword: true}, RightRead)
	require.NoError(t, err, "the right one is not kept waiting")
}

// After that many wrong passwords nothing that an address shows is checked for a while, except
// its last credentials and certificates.
func TestGuessesAnsweredAtOnce(t *testing.T) {
	c := newRig()
	c.configure(Rules{}, [PortCount]Grants{PortHTTP: {
		Tokens: [RightCount]string{RightRead: "R"}, Certificates: [RightCount][]string{RightRead: {"gate"}},
	}})
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
	failures := c.wrong
	guessed := 0
	for admit(fmt.Sprintf("10.0.0.1:%d", guessed+1), fmt.Sprint("guess", guessed)) != ErrGuesses { // it has one more each guessPace
		guessed++
		require.Less(t, guessed, 10_000, "guesses have no bound")
	}
	require.GreaterOrEqual(t, guessed, guessBurst-1)
	require.Equal(t, guessed+1, c.wrong-failures)
	other := "10.0.0.2:5"
	for i := 3; slotOf(other) == slotOf(address); i++ {
		other = fmt.Sprintf("10.0.0.%d:5", i)
	}
	require.NoError(t, admit(other, "R"), "of another address")
	require.NoError(t, admit(address, "x", "gate"), "a certificate is no guess")
	require.Eventually(t, func() bool { return admit(address, "R") == nil }, 10*time.Second, time.Millisecond)
	for i := range 20 {
		require.Equal(t, slotOf("[2001:db8::1]:5"), slotOf(fmt.Sprintf("[2001:db8::%x:1]:%d", i, i)), "one network")
	}

	// The number of guesses left at a moment is exact.
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
