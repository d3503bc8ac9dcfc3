package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/headgate-io/headgate/cmd/headgate/config"
	"github.com/headgate-io/headgate/policy/grammar"
	"github.com/headgate-io/headgate/server"
)

// policiesFile is the node's file of policies. The node offers the file to its cluster.
// Without a path, there is nothing to offer.
type policiesFile struct {
	path, node string
	noGateways bool // no gateway is a trusted proxy
	log        *slog.Logger
	changed    chan struct{} // capacity 1: there is a new text

	// mu guards text, the latest valid text that could be read.
	mu   sync.Mutex
	text []byte
}

// How long the node waits after an offer has failed, for example because there is no
// leader.
const (
	offerDelay     = 200 * time.Millisecond
	offerDelayMost = 10 * time.Second
)

// openPolicies reads the file of policies that c names, if any.
func openPolicies(c *config.Config, log *slog.Logger) (*policiesFile, error) {
	noGateways := len(c.TrustedProxies) == 0
	text, err := checkedPolicies(c.Policies, noGateways)
	if err != nil {
		return nil, err
	}
	return &policiesFile{path: c.Policies, noGateways: noGateways, node: c.Node(), log: log, changed: make(chan struct{}, 1), text: text}, nil
}

// checkedPolicies reads a file of policies and checks it. If path is "", it does nothing.
// If no gateway is a trusted proxy, it refuses routes by ip. It does not check that the
// policies of routes exist, because they need not be in the file; the server does.
func checkedPolicies(path string, noGateways bool) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the policies: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, grammar.MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the policies: %w", err)
	}
	records, err := grammar.ParseFile(path, text)
	if err != nil {
		return nil, fmt.Errorf("policies: %w", err)
	}
	if set, err := compilePolicies(records); err == nil && noGateways {
		if err := set.CheckAddresses(); err != nil {
			return nil, fmt.Errorf("policies: %w", err)
		}
	}
	return text, nil
}

// reload reads the file again. If the file is invalid, nothing changes.
func (p *policiesFile) reload() {
	if p.path == "" {
		return
	}
	text, err := checkedPolicies(p.path, p.noGateways)
	if err != nil {
		p.log.Error("the policy file has errors; the policies in force stay", "error", err)
		return
	}
	p.mu.Lock()
	p.text = text
	p.mu.Unlock()
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// offer offers the file once.
func (p *policiesFile) offer(ctx context.Context, front *server.Server) error {
	if p.path == "" {
		return nil
	}
	p.mu.Lock()
	text := p.text
	p.mu.Unlock()
	f, err := front.OfferPolicies(ctx, p.node, p.path, text)
	switch {
	case err != nil:
		return fmt.Errorf("load the policies of %s: %w", p.path, err)
	case f.Loaded:
		p.log.Info("policies loaded", "file", p.path, "changed", f.Changed)
	case !f.InForce:
		p.log.Warn("the policies in force come from another node's file, which is newer; this node's file is not used",
			"file", p.path, "in_force", f.Path, "node", f.Node)
	}
	return nil
}

// run offers the file until the cluster accepts it, and again after each change of the
// file. It ends when ctx is done.
func (p *policiesFile) run(ctx context.Context, front *server.Server) {
	for p.path != "" && ctx.Err() == nil {
		p.insist(ctx, front)
		select {
		case <-p.changed:
		case <-ctx.Done():
		}
	}
}

// insist repeats the offer until it succeeds or ctx is done.
func (p *policiesFile) insist(ctx context.Context, front *server.Server) {
	said := ""
	for delay := offerDelay; ; delay = min(2*delay, offerDelayMost) {
		err := p.offer(ctx, front)
		if err == nil || ctx.Err() != nil {
			return
		}
		if s := err.Error(); s != said {
			said = s
			p.log.Warn("the policies are not loaded yet", "error", err)
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return
		}
	}
}
