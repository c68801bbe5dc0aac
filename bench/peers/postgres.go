package peers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

var postgresKinds = []kind{{
	name: "postgres-fsync", doc: "PostgreSQL, which flushes its log before a commit is answered (synchronous_commit=on)", timeout: time.Minute,
	install: func(ctx context.Context, o *Options) error {
		if postgresBin("/") != "" {
			return nil
		}
		return o.debian(ctx, postgresFolder, "postgres", postgresPackages)
	},
	start: startPostgres, ready: askPostgres,
}}

const (
	postgresFolder = "postgres-debian"
	postgresUser   = "bench"
)

var postgresPackages = []string{
	"postgresql-15", "postgresql-client-15", "libpq5", "libxml2", "libicu72", "libldap-2.5-0", "libsasl2-2", "libssl3", "libgssapi-krb5-2", "libkrb5-3",
	"libk5crypto3", "libkrb5support0", "libkeyutils1",
}

// postgresBin returns the folder of the newest programs below root, or "".
func postgresBin(root string) string {
	list, _ := filepath.Glob(filepath.Join(root, "usr/lib/postgresql/*/bin")) // the pattern is valid
	slices.Sort(list)
	if len(list) == 0 {
		return ""
	}
	return list[len(list)-1]
}

// unprivileged returns a command in a user namespace in which root has another name. PostgreSQL refuses to
// run as root, and the folders of the cache and of the data belong to it.
func unprivileged(args ...string) []string {
	if os.Geteuid() != 0 {
		return args
	}
	return append([]string{"unshare", "--user", "--map-user=1000", "--map-group=1000", "--"}, args...)
}

func startPostgres(ctx context.Context, p *Peer) error {
	bin, env := postgresBin("/"), []string(nil)
	if bin == "" {
		unpacked := filepath.Join(p.o.Cache, postgresFolder)
		bin, env = postgresBin(unpacked), libraries(unpacked)
	}
	ports, err := freePorts(1)
	if err != nil {
		return err
	}
	data := filepath.Join(p.Dir, "data")
	initdb := unprivileged(filepath.Join(bin, "initdb"), "-D", data, "-U", postgresUser, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-instructions")
	if _, err := command(ctx, p.Dir, env, initdb[0], initdb[1:]...); err != nil {
		return err
	}
	p.address = loopback(ports[0])
	p.Targets = []Target{{Driver: "postgres", Address: "postgres://" + postgresUser + "@" + p.address + "/postgres?sslmode=disable"}}
	args := unprivileged(filepath.Join(bin, "postgres"), "-D", data)
	for _, setting := range []string{
		"listen_addresses=127.0.0.1", "port=" + strconv.Itoa(ports[0]), "unix_socket_directories=", "fsync=on", "synchronous_commit=on", "jit=off",
		"max_connections=200", "shared_buffers=512MB", "max_wal_size=4GB",
	} {
		args = append(args, "-c", setting)
	}
	return p.run("postgres", env, args[0], args[1:]...)
}

func askPostgres(ctx context.Context, p *Peer) error {
	c, err := pgx.Connect(ctx, p.Targets[0].Address)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	return c.Close(ctx)
}
