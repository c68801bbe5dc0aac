package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/failpoint"
	"github.com/sebbroker/seb/internal/engine/base/pause"
	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/cluster/link"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/operate/node"
	"github.com/sebbroker/seb/record"
)

const (
	// listPause is the time between two attempts to list the registrations at a start.
	listPause = time.Second
	// leaderTime is how long a start waits for a leader, this broker or another one.
	leaderTime = 5 * time.Second
	// handOverTime is how long a stop waits for a hand-over.
	handOverTime = 5 * time.Second
	// goodbyeTime bounds the end of links and the DELETE of the registration.
	goodbyeTime = 2 * time.Second
	// linkBytes bounds the slots that wait for links; with little memory a thirty-second of it does.
	linkBytes = 8 << 20
)

// lookEvery is the time between two LISTs of the registrations by a leader that commits something.
var lookEvery = 10 * time.Minute

// peers is the part of a server that knows other brokers of the bucket:
//
//	log's owner ── Report ──▶ loop (cluster.Core) ◀── events ── links
//	            ◀─ effects ──       │             ── messages ─▶
//	                              board ──▶ front ends
//
// A nil *peers knows none.
type peers struct {
	s      *Server
	log    *slog.Logger
	store  objstore.Store
	self   cluster.Registration
	key    *link.KeyPair
	found  []cluster.Registration // at the start
	old    []cluster.Run          // earlier runs of the data folder
	follow bool                   // the log was opened to follow

	board *cluster.Board
	net   *link.Net // nil: this broker cannot be reached
	loop  *loop

	stop    context.CancelFunc
	running sync.WaitGroup
	stopped sync.Once

	registered chan struct{} // closed when the registration is stored, or cannot be
	met        chan struct{} // closed when another broker is registered
}

// join is Options.Join of the node: it finds out which other brokers there are. The log is opened to
// follow, because a broker stands only after it has read the log, is registered, and knows which others
// are. So of two that start at the same time, one finds the other. A broker that may not LIST is alone.
func (s *Server) join(ctx context.Context, j node.Joining) (node.Joined, error) {
	key, err := link.NewKeyPair()
	if err != nil {
		return node.Joined{}, err
	}
	p := &peers{s: s, log: s.log, store: j.Store, key: key, follow: !s.cfg.TakeOver, registered: make(chan struct{}), met: make(chan struct{})}
	p.self = s.registration(cluster.Run{Node: j.Node, ID: s.run}, key.Hash())
	listing, err := p.list(ctx, j.Bucket)
	if errors.Is(err, objstore.ErrNoVerdict) {
		return node.Joined{}, fmt.Errorf("%w; last error of the object store: %w", context.Cause(ctx), err)
	}
	if err != nil {
		s.log.Warn("other brokers not found, because registrations cannot be listed: this broker starts as the only one", "err", err)
		return node.Joined{Run: p.self.Run}, nil
	}
	for _, err := range listing.Damaged {
		s.log.Warn("registration of a broker ignored", "err", err)
	}
	if listing.More {
		s.log.Warn("registrations of brokers ignored: there are too many", "limit", link.PeersMax, "hint", "seb cluster forget RUN")
	}
	p.found, p.old = listing.Found, listing.Own
	p.meet(p.found)
	p.adoptKey()
	p.board = cluster.NewBoard(p.self)
	p.loop = newLoop(p, cluster.New(cluster.Config{Self: p.self, Led: j.Led}))
	s.peers = p
	return node.Joined{Run: p.self.Run, Standby: true, Follow: p.follow, InDoubt: p.inDoubt, Told: p.told, RaiseMax: p.raiseMax, Fed: p.fed}, nil
}

// list reads the registrations of other brokers, as this one sees them. Like the log it waits for a store
// that does not answer.
func (p *peers) list(ctx context.Context, bucket objstore.Store) (link.Listing, error) {
	for {
		listing, err := p.listOnce(ctx, bucket)
		if err == nil || !errors.Is(err, objstore.ErrNoVerdict) || ctx.Err() != nil {
			return listing, err
		}
		p.log.Warn("object store request failed", "op", "list", "key", link.Prefix, "err", err)
		if pause.Wait(ctx, listPause) != nil {
			return listing, err
		}
	}
}

// listOnce is list without waiting for a store that does not answer.
func (p *peers) listOnce(ctx context.Context, bucket objstore.Store) (link.Listing, error) {
	listing, err := link.List(ctx, bucket, p.self.Run.Node)
	for i := range listing.Found {
		listing.Found[i] = listing.Found[i].SeenBy(&p.self)
	}
	return listing, err
}

// get reads the registration of a run, as this one sees it.
func (p *peers) get(ctx context.Context, run cluster.Run) (cluster.Registration, error) {
	r, err := link.Get(ctx, p.store, run)
	return r.SeenBy(&p.self), err
}

// registration describes this process to other brokers.
func (s *Server) registration(run cluster.Run, key [32]byte) cluster.Registration {
	hosts := s.advertisedHosts()
	r := cluster.Registration{
		Run: run, KeyHash: key, Version: s.cfg.Version, LevelMax: state.LevelMax, Secure: s.ports.http.Secure(), KafkaID: 1, URL: s.advertisedURL(hosts),
	}
	r.Name, _ = os.Hostname()
	if r.Machine = machineID(); failpoint.UnknownMachine() {
		r.Machine = [16]byte{}
	}
	if r.Machine != [16]byte{} {
		r.Local = localAddress(s.listener.Addr().String())
		folder, err := filepath.Abs(s.cfg.DataDir)
		if own := s.keyFile == filepath.Join(s.cfg.DataDir, KeyFile); own && err == nil && link.CheckFolder(folder) == nil {
			r.Folder = folder
		}
	}
	r.Addresses = hosts
	if r.Reachable() {
		r.Kafka = s.advertisedKafka(append(slices.Clip(hosts), r.Local)[0])
		r.KafkaID = kafkaID(run.Node, r.Kafka)
	}
	return r
}

// localAddress returns the address at which processes of this machine reach a listener.
func localAddress(listener string) string {
	host, port, err := net.SplitHostPort(listener)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsUnspecified() {
		return listener
	} else if ip.To4() == nil {
		return net.JoinHostPort("::1", port)
	}
	return net.JoinHostPort("127.0.0.1", port)
}

// advertisedURL returns the URL of the HTTP listener at the first of hosts; of its own address without any.
func (s *Server) advertisedURL(hosts []string) string {
	switch {
	case len(hosts) == 0:
		return s.URL()
	case s.ports.http.Secure():
		return "https://" + hosts[0]
	}
	return "http://" + hosts[0]
}

// advertisedKafka returns the host:port with which Kafka clients on other machines reach this broker, at
// the host of an HTTP address unless --kafka-advertise says otherwise; "": they do not.
func (s *Server) advertisedKafka(address string) string {
	own := s.KafkaAddress()
	_, port, err := net.SplitHostPort(own)
	host, _, _ := net.SplitHostPort(address)
	switch {
	case !s.kafka.on():
		return ""
	case s.cfg.Kafka.Advertise != "":
		return s.cfg.Kafka.Advertise
	case err != nil:
		return ""
	case loopback(own) && !loopback(address) && host != "localhost":
		s.log.Warn("other brokers do not name this one to Kafka clients, because its Kafka listener is on a loopback address",
			"address", own, "hint", "--kafka-listen, --kafka-advertise")
		return ""
	}
	return net.JoinHostPort(host, port)
}

// kafkaID derives a node id for Kafka clients, so that an id belongs to one address: clients keep the
// connection to the old address of an id. 1 is the id of a broker that cannot be reached.
func kafkaID(node record.ID, address string) int32 {
	h := fnv.New64a()
	_, _ = h.Write(node[:])
	_, _ = h.Write([]byte(address))
	return int32(2 + h.Sum64()%(math.MaxInt32-2))
}

// advertisedHosts returns the host:port with which other machines reach the HTTP listener: that of
// --advertise, or the addresses of a listener that is not on a loopback address.
func (s *Server) advertisedHosts() []string {
	host, port, err := net.SplitHostPort(s.listener.Addr().String())
	if err != nil {
		return nil
	}
	if a := s.cfg.Advertise; a != "" {
		if address, ok := hostPort(a, port); ok {
			return []string{address}
		}
		s.log.Warn("other brokers cannot reach this one: --advertise is no URL and no host:port", "advertise", a)
		return nil
	}
	ip := net.ParseIP(host)
	switch {
	case ip == nil || ip.IsLoopback():
		return nil
	case !ip.IsUnspecified():
		return []string{net.JoinHostPort(host, port)}
	}
	var list []string
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		s.log.Warn("other brokers cannot reach this one: the addresses of this machine are unknown", "err", err, "hint", "--advertise")
	}
	for _, a := range addresses {
		n, ok := a.(*net.IPNet)
		if ok && n.IP.IsGlobalUnicast() && len(list) < link.AddressesMax {
			list = append(list, net.JoinHostPort(n.IP.String(), port))
		}
	}
	return list
}

// knownHosts returns the names with which this broker answers without a key: those of --http-host and
// --advertise.
func (s *Server) knownHosts() []string {
	hosts := s.cfg.HTTP.Hosts.List()
	if address, ok := hostPort(s.cfg.Advertise, "1"); ok {
		host, _, _ := net.SplitHostPort(address)
		hosts = append(slices.Clip(hosts), host)
	}
	return hosts
}

// hostPort reads a URL, a host:port or a host.
func hostPort(a, port string) (string, bool) {
	if u, err := url.Parse(a); err == nil && u.Host != "" {
		standard := map[string]string{"http": "80", "https": "443"}[u.Scheme]
		return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), standard)), standard != ""
	}
	host, own, err := net.SplitHostPort(a)
	if err != nil {
		host, own = a, port
	}
	n, err := strconv.ParseUint(own, 10, 16)
	valid := host != "" && err == nil && n != 0
	for _, c := range host {
		valid = valid && c > ' ' && c != '/' && c < 0x7f
	}
	return net.JoinHostPort(host, own), valid
}

// start connects this broker with the others. The listener serves already.
func (p *peers) start(ctx context.Context) error {
	if p == nil {
		return nil
	}
	var err error
	p.net, err = link.New(link.Options{
		Self: p.self, Key: p.key, RootKey: []byte(p.s.key), SecretsKey: p.s.secrets.Check(), Logger: p.log, Events: p.loop.linkEvent,
		Outer: p.s.ports.linkTLS(&p.s.cfg.TLS), QueueBytes: min(linkBytes, p.s.node.Budget().Limit()/32), Lookup: p.get,
	})
	if err != nil {
		return err
	}
	ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	p.running.Go(func() { p.registerSelf(ctx) })
	p.running.Go(func() { p.loop.run(ctx, p.found) })
	p.s.node.WhileLeading(p.lookForOthers)
	return nil
}

// lookForOthers finds brokers that cannot tell this leader that they have started, because the two do not
// reach each other. An idle leader makes no request.
func (p *peers) lookForOthers(ctx context.Context) {
	timer := time.NewTicker(lookEvery)
	defer timer.Stop()
	begin, err := p.s.node.Report(ctx)
	for seen := begin.Pos; err == nil; {
		select {
		case <-timer.C:
			seen, err = p.look(ctx, seen)
		case <-ctx.Done():
			return
		}
	}
}

// look reads the registrations, if the log has grown since a position. It returns the end of the log.
func (p *peers) look(ctx context.Context, seen state.Position) (end state.Position, err error) {
	r, err := p.s.node.Report(ctx)
	if err == nil && r.Pos != seen {
		p.loop.list(ctx, true)
	}
	return r.Pos, err
}

// meet notes which other brokers are registered.
func (p *peers) meet(found []cluster.Registration) {
	if len(found) > 0 {
		closeOnce(p.met)
	}
}

// leadsFirst waits until this broker leads, if there is no other: clients that connect before wait too.
func (p *peers) leadsFirst(ctx context.Context) error {
	if p == nil || !p.follow {
		return nil
	}
	return p.awaitLeader(ctx, p.met)
}

// awaitLeader waits until this broker or another one leads, or until limit, if that is not nil.
func (p *peers) awaitLeader(ctx context.Context, limit <-chan struct{}) error {
	for {
		changed := p.board.Changed()
		if _, ok := p.board.Leader(); ok {
			return nil
		}
		select {
		case <-changed:
		case <-p.s.done:
			return p.s.err
		case <-p.s.node.Done():
			return p.s.node.Err()
		case <-limit:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// view returns what front ends see of other brokers; nil if this one knows none.
func (p *peers) view() cluster.View {
	if p == nil {
		return nil
	}
	return p.board
}

// control returns what an operator can ask for; nil if this broker knows no others.
func (p *peers) control() cluster.Control {
	if p == nil {
		return nil
	}
	return p
}

// link returns what takes over connections of other brokers; nil if none of them finds this one.
func (p *peers) link() func(w http.ResponseWriter, r *http.Request) error {
	if p == nil || p.net == nil {
		return nil
	}
	return p.net.Accept
}

// registerSelf stores the registration, and removes those of earlier runs of the data folder, whose
// lock this run holds.
func (p *peers) registerSelf(ctx context.Context) {
	defer close(p.registered)
	for {
		err := link.Put(ctx, p.store, &p.self)
		failed, isCheck := errors.AsType[*node.StoreCheckError](err)
		switch {
		case err == nil:
			p.remove(ctx, p.old)
			return
		case ctx.Err() != nil:
			return
		case isCheck:
			p.s.end(failed.Err)
			return
		case !errors.Is(err, objstore.ErrNoVerdict):
			p.log.Warn("this broker is not registered, so others do not find it", "err", err)
			return
		}
		p.log.Warn("registration not stored, retrying", "err", err)
		if pause.Wait(ctx, time.Second) != nil {
			return
		}
	}
}

// remove deletes the registrations of runs that have ended.
func (p *peers) remove(ctx context.Context, runs []cluster.Run) {
	if err := link.Delete(ctx, p.store, runs...); err != nil && ctx.Err() == nil {
		p.log.Warn("registrations of runs that have ended not removed", "runs", len(runs), "err", err)
	}
}

// ready waits until this broker is registered, and until it or another one leads, but not longer than
// leaderTime for another one.
func (p *peers) ready(ctx context.Context) error {
	if p == nil {
		return nil
	}
	limit, cancel := context.WithTimeout(ctx, leaderTime)
	defer cancel()
	select {
	case <-p.registered:
	case <-limit.Done():
		return context.Cause(ctx)
	}
	if !p.follow {
		return nil
	}
	err := p.awaitLeader(ctx, limit.Done())
	if _, ok := p.board.Leader(); err == nil && !ok {
		p.log.Warn("no broker leads yet")
	}
	return err
}

// leave hands over, if a standby can take over.
func (p *peers) leave(ctx context.Context) {
	if p == nil || p.loop == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, handOverTime)
	defer cancel()
	p.loop.leave(ctx)
}

// close says goodbye and deletes the registration.
func (p *peers) close(ctx context.Context) {
	if p == nil {
		return
	}
	p.stopped.Do(func() {
		ctx, cancel := context.WithTimeout(ctx, goodbyeTime)
		defer cancel()
		if p.stop != nil {
			p.stop()
		}
		p.running.Wait()
		if p.net != nil {
			p.net.Close(true)
		}
		if err := link.Delete(ctx, p.store, p.self.Run); err != nil {
			p.log.Warn("registration of this broker not removed", "err", err)
		}
	})
}

// errApart is the end of a broker that has led, when one leads that does not reach it.
func errApart() error {
	return fmt.Errorf("%w, which is registered in the bucket, and the two do not reach each other. %s",
		state.ErrFenced, cluster.ApartHint)
}
