package server

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/access"
	"github.com/headgate-io/headgate/server/checks"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/events"
	"github.com/headgate-io/headgate/server/memory"
	"github.com/headgate-io/headgate/server/policies"
	"github.com/headgate-io/headgate/server/pubsub"
	"github.com/headgate-io/headgate/server/scripts"
)

// New returns a server with running loops and workers, and without listeners. The caller
// must call Shutdown to end them.
func New(cfg Config) (*Server, error) { return newServer(cfg, nil) }

// newServer does the same as New, with additional commands.
func newServer(cfg Config, more []command.Spec) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("server config: %w", err)
	}
	id := make([]byte, 20)
	_, _ = rand.Read(id) // never fails
	s := &Server{
		cfg:      cfg,
		log:      cfg.Logger,
		engine:   cfg.Parts[0].Engine,
		runID:    hex.EncodeToString(id),
		started:  time.Now(),
		electing: electing,
		execTime: command.ExecTime,
		limits:   resp.Limits{MaxArgs: cfg.MaxArgs, MaxBulk: cfg.MaxBulk},
		lanes:    make(map[*lane]struct{}),
		legs:     newLegSlots(len(cfg.Parts)),

		redirects: make([]atomic.Uint64, len(cfg.Parts)),
		heavy:     make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
	}
	s.terms.Store(1)
	s.open()
	s.clients.all = make(map[uint64]*conn)
	for i, p := range cfg.Parts {
		log := cfg.Logger
		if len(cfg.Parts) > 1 {
			log = log.With("group", i)
		}
		s.parts = append(s.parts, partition.New(partition.Config{
			Slots:  partition.RangeOf(i, len(cfg.Parts)),
			Engine: p.Engine, Replication: p.Replication, Front: front{s, uint16(i)},
			Logger: log, OnFailure: cfg.OnFailure, Backstop: cfg.Backstop, ForwardTimeout: cfg.ForwardTimeout, HandoverWait: cfg.HandoverWait,
			MostReply: cfg.OutputBufferLimit, MaxArgs: cfg.MaxArgs,
		}))
	}
	s.events = events.New()
	tallies := checks.NewTallies()
	engines := make([]*engine.Engine, len(cfg.Parts))
	for i, p := range cfg.Parts {
		engines[i] = p.Engine
	}
	homes := checks.NewHomes(engines, keySlot, s.caller.askGroup)
	s.policies = policies.NewBook(s.engine, homes, cfg.Logger, cfg.NoGateways, s.events, tallies)
	s.checks = checks.New(homes, s.policies, tallies, s.events)
	s.memory.init(s, func() int { return s.scripts.Slow() })
	s.others.init(s)
	hub := pubsub.Config{
		Account: s.memory.Account, Own: eventsChannel, Find: s.subscriber,
		Watched: func(on bool) { s.setMode(modeMonitors, on) }, Tracked: func(on bool) { s.setMode(modeTracking, on) },
		Told: s.others.told,
	}
	if !s.parts[0].Alone() {
		hub.Tell = s.others.tell
	}
	s.pubsub = pubsub.New(hub)
	var stray func([][]byte, *command.Spec, [][]byte) bool
	if len(s.parts) > 1 {
		stray = strays
	}
	s.scripts = scripts.New(scripts.Config{
		Engines: engines, Hub: s.pubsub, Account: s.memory.Account, Aside: s.newAside, Version: redisVersion,
		Strays: stray, MaxReply: cfg.OutputBufferLimit, MaxMessages: cfg.MaxBulk, Time: func() time.Duration { return s.runtime.Load().ScriptTime },
		Exec: func() time.Duration { return s.execTime }, Ended: s.memory.scavenger.Ask, Ending: s.ending, Logger: cfg.Logger,
	})
	if s.table, err = command.NewTable(append(s.commandLists(), more)...); err != nil {
		return nil, err
	}
	s.fromNodes, s.unconnected = s.table.Forwarded(), s.table.Unconnected()
	s.limitSpec = s.table.ByFullName([]byte("rl.limit"))
	s.scripts.Use(s.table)
	s.gate = access.New(access.Config{
		Rules: s.accessRules, Logger: cfg.Logger,
		Wrong: func() { s.stats.counts[countAuthFailures].Add(1) },
	})
	s.caller.Gate, s.caller.srv, s.caller.cut = s.gate, s, make(chan struct{})
	s.masters.add(masterName)
	s.Configure(cfg.Runtime)
	s.stats.init(s.table, cfg.IOThreads+streamStripes, len(s.parts))
	s.workers = newWorkers(cfg.Workers)
	s.beat.stop = make(chan struct{})
	if err := s.startLoops(); err != nil {
		s.closePartitions()
		s.workers.close(s.ending)
		return nil, err
	}
	go s.beat.run(s)
	go s.memory.run(s)
	go s.memory.scavenger.Run(s.end, memory.Mapped())
	go s.tellEvents()
	return s, nil
}
