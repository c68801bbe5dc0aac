package queues

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverClient uses River, which inserts jobs with SQL and learns of them from NOTIFY.
type riverClient struct {
	c      *Config
	pool   *pgxpool.Pool
	insert *river.Client[pgx.Tx]
}

// riverJob is a job with a message.
type riverJob struct {
	M string `json:"m"`
}

// Kind implements river.JobArgs.
func (riverJob) Kind() string { return "message" }

func openRiver(ctx context.Context, c *Config) (Client, error) {
	o, err := pgxpool.ParseConfig(c.target("postgres").Address)
	if err != nil {
		return nil, err
	}
	o.MaxConns = int32(c.Senders + c.Workers)
	r := &riverClient{c: c}
	if r.pool, err = pgxpool.NewWithConfig(ctx, o); err != nil {
		return nil, err
	}
	m, err := rivermigrate.New(riverpgxv5.New(r.pool), &rivermigrate.Config{Logger: silent})
	if err != nil {
		return r, err
	}
	if _, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return r, err
	}
	r.insert, err = river.NewClient(riverpgxv5.New(r.pool), &river.Config{Logger: silent})
	return r, err
}

var silent = slog.New(slog.DiscardHandler)

func (r *riverClient) Processes() []int { return nil }

func (r *riverClient) Close() error {
	r.pool.Close()
	return nil
}

func (r *riverClient) Sender(context.Context) (Sender, error) { return r, nil }

// Send implements Sender.
func (r *riverClient) Send(ctx context.Context, messages [][]byte) error {
	o := &river.InsertOpts{Queue: r.c.Name}
	if len(messages) == 1 {
		_, err := r.insert.Insert(ctx, riverJob{string(messages[0])}, o)
		return err
	}
	list := make([]river.InsertManyParams, len(messages))
	for i, m := range messages {
		list[i] = river.InsertManyParams{Args: riverJob{string(m)}, InsertOpts: o}
	}
	_, err := r.insert.InsertManyFast(ctx, list)
	return err
}

type riverWorker struct {
	river.WorkerDefaults[riverJob]
	l Listener
}

// Work implements river.Worker.
func (w *riverWorker) Work(_ context.Context, j *river.Job[riverJob]) error {
	w.l.Begin([]byte(j.Args.M), Now())
	return nil
}

const riverEvents = 100_000 // completed jobs that are not counted yet

func (r *riverClient) Work(ctx context.Context, l Listener) error {
	handlers := river.NewWorkers()
	river.AddWorker(handlers, &riverWorker{l: l})
	client, err := river.NewClient(riverpgxv5.New(r.pool), &river.Config{
		Logger: silent, Workers: handlers, FetchCooldown: time.Millisecond,
		Queues: map[string]river.QueueConfig{r.c.Name: {MaxWorkers: r.c.Workers * r.c.Batch}},
	})
	if err != nil {
		return err
	}
	done, cancel := client.SubscribeConfig(&river.SubscribeConfig{ChanSize: riverEvents, Kinds: []river.EventKind{river.EventKindJobCompleted}})
	defer cancel()
	own := context.WithoutCancel(ctx)
	if err := client.Start(own); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			own, cancel := context.WithTimeout(own, drainWait)
			defer cancel()
			return client.Stop(own)
		case _, ok := <-done:
			if !ok {
				return errors.New("the client of River has stopped")
			}
			l.Settled(1)
		}
	}
}
