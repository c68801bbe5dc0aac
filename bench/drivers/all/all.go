// Package all links every driver.
package all

import (
	_ "github.com/sebbroker/seb/bench/drivers/kafka" // each registers itself
	_ "github.com/sebbroker/seb/bench/drivers/nats"
	_ "github.com/sebbroker/seb/bench/drivers/noop"
	_ "github.com/sebbroker/seb/bench/drivers/rabbitmq"
	_ "github.com/sebbroker/seb/bench/drivers/redis"
	_ "github.com/sebbroker/seb/bench/drivers/seb"
)
