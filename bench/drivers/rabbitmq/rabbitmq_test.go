package rabbitmq_test

import (
	"context"
	"errors"
	"strconv"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sebbroker/seb/bench/drivers/contract"
	_ "github.com/sebbroker/seb/bench/drivers/rabbitmq" // registers itself
	"github.com/sebbroker/seb/bench/peers/peerstest"
)

// left checks the exchange and the queues of a run's name, because AMQP cannot list them.
func left(_ context.Context, address, name string) ([]string, error) {
	c, err := amqp.Dial(address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	names := []string{name + "-shared"}
	for i := range 5 {
		names = append(names, name+"-"+strconv.Itoa(i))
	}
	var list []string
	for i := -1; i < len(names); i++ {
		ch, err := c.Channel() // a failed channel is closed
		if err != nil {
			return nil, err
		}
		what := name
		if i < 0 {
			err = ch.ExchangeDeclarePassive(name, amqp.ExchangeFanout, false, false, false, false, nil)
		} else {
			what = names[i]
			_, err = ch.QueueDeclarePassive(what, false, false, false, false, nil)
		}
		var fault *amqp.Error
		if errors.As(err, &fault) && fault.Code == amqp.NotFound {
			continue
		}
		list = append(list, what)
	}
	return list, nil
}

func TestContractClassic(t *testing.T) {
	p, own := peerstest.Find(t, "rabbitmq-memory")
	peerstest.Contract(t, p, own, contract.Target{Driver: "rabbitmq-classic", Left: left})
}

func TestContractQuorum(t *testing.T) {
	p, own := peerstest.Find(t, "rabbitmq-fsync")
	peerstest.Contract(t, p, own, contract.Target{Driver: "rabbitmq-quorum", Left: left})
}
