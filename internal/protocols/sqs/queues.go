package sqs

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/record"
)

// checkName checks the name of a new queue.
func checkName(name string, fifo bool) error {
	base, suffixed := strings.CutSuffix(name, fifoSuffix)
	switch {
	case fifo && (!suffixed || !validName.MatchString(base) || len(name) > 80):
		return errValue("The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, must end with .fifo suffix and be 1 to 80 in length.")
	case !fifo && !validName.MatchString(name):
		return errValue("Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length")
	}
	return nil
}

func (s *Server) createQueue(ctx context.Context, c *Call) (*Answer, error) {
	name, attrs := c.in.QueueName, c.in.Attributes
	if name == "" {
		return nil, errMissing("QueueName")
	}
	fifo := strings.EqualFold(attrs[attrFIFO], "true")
	if err := checkName(name, fifo); err != nil {
		return nil, err
	}
	if err := c.checkTags(c.in.Tags); err != nil {
		return nil, err
	}
	for range 2 {
		x, err := s.settings(name)
		if err == nil {
			if err := c.Client.May(access.Describe, access.Topic, name); err != nil {
				return nil, err
			}
			if err := x.same(c, name); err != nil {
				return nil, err
			}
			break
		}
		if _, known := s.o.Broker.TopicNamed(name); known {
			return nil, refuse("QueueNameExists", "A topic that is no queue has the name %s.", name)
		}
		if err = s.create(ctx, c, name, fifo); err == nil {
			break
		}
		if !errors.Is(err, state.ErrTopicExists) { // created meanwhile
			return nil, err
		}
	}
	return c.answer(func(o *output) { o.text("QueueUrl", c.url(name)) }), nil
}

// create creates a queue with the attributes of a call.
func (s *Server) create(ctx context.Context, c *Call, name string, fifo bool) error {
	now := s.now().Unix()
	k := kept{Tags: c.in.Tags, Created: now, Modified: now}
	set := map[string]string{"dead-letter": state.NoDeadLetter, "expire": seconds(attributes[attrRetention].standard), "key-mode": state.KeyFair}
	if fifo {
		set["key-mode"] = state.KeyOrder
	}
	more, err := k.change(c.in.Attributes, fifo, s.deadLetter(fifo))
	if err != nil {
		return err
	}
	maps.Copy(set, more)
	if set["sqs"], err = k.text(); err != nil {
		return err
	}
	return c.Client.Create(ctx, name, queue.Spec{Settings: set})
}

// deadLetter returns the function that finds the dead-letter queue of a RedrivePolicy.
func (s *Server) deadLetter(fifo bool) func(arn string) (string, error) {
	return func(arn string) (string, error) {
		name, ok := ofARN(arn)
		if !ok {
			return "", errParameter(attrRedrive, arn, "Invalid value for deadLetterTargetArn.")
		}
		x, err := s.settings(name)
		if err != nil {
			return "", errParameter(attrRedrive, arn, "Dead letter target does not exist.")
		}
		if x.isFIFO(name) != fifo {
			return "", errParameter(attrRedrive, arn, "Dead-letter queue must be same type of queue as the source.")
		}
		return name, nil
	}
}

// same returns an error if an existing queue has other attributes than a CreateQueue.
func (x *settings) same(c *Call, name string) error {
	now := x.all(c, name)
	for _, k := range slices.Sorted(maps.Keys(c.in.Attributes)) {
		want := c.in.Attributes[k]
		if k == attrRedrive {
			set := map[string]string{}
			err := redrivePolicy(set, want, func(arn string) (string, error) { n, _ := ofARN(arn); return n, nil })
			if err == nil && set["dead-letter"] == x.engine.DeadLetter && number(set["max-deliveries"]) == x.engine.MaxDeliveries {
				continue
			}
		} else if now[k] == want || strings.EqualFold(now[k], want) && slices.Contains(truths, now[k]) {
			continue
		}
		return refuse("QueueNameExists", "A queue already exists with the same name and a different value for attribute %.80s", k)
	}
	return nil
}

func (s *Server) now() time.Time { t, _ := s.o.Broker.Now(); return t }

// existing returns the settings of the queue of a call that the client may use.
func (s *Server) existing(c *Call, o access.Operation) (*settings, error) {
	if err := c.Client.May(o, access.Topic, c.queue); err != nil {
		return nil, err
	}
	return s.settings(c.queue)
}

func (s *Server) getQueueURL(_ context.Context, c *Call) (*Answer, error) {
	if c.queue = c.in.QueueName; c.queue == "" {
		return nil, errMissing("QueueName")
	}
	if owner := c.in.QueueOwnerAWSAccountId; owner != "" && owner != Account {
		return nil, errNoQueue
	}
	if _, err := s.existing(c, access.Describe); err != nil {
		return nil, err
	}
	return c.answer(func(o *output) { o.text("QueueUrl", c.url(c.queue)) }), nil
}

func (s *Server) listQueues(_ context.Context, c *Call) (*Answer, error) {
	names := slices.DeleteFunc(s.o.Queues.Names(), func(name string) bool {
		return !strings.HasPrefix(name, c.in.QueueNamePrefix) || c.Client.May(access.Describe, access.Topic, name) != nil
	})
	return c.urls("QueueUrls", names)
}

// urls answers with a page of queues.
func (c *Call) urls(member string, names []string) (*Answer, error) {
	slices.Sort(names)
	list, next, err := c.page(names)
	if err != nil {
		return nil, err
	}
	for i := range list {
		list[i] = c.url(list[i])
	}
	return c.answer(func(o *output) {
		if len(list) > 0 || member == "queueUrls" {
			o.texts(member, "QueueUrl", list)
		}
		o.textIf("NextToken", next)
	}), nil
}

func (s *Server) listSources(_ context.Context, c *Call) (*Answer, error) {
	if _, err := s.existing(c, access.Describe); err != nil {
		return nil, err
	}
	names := slices.DeleteFunc(s.o.Queues.Names(), func(name string) bool {
		x, err := s.settings(name)
		return err != nil || x.engine.DeadLetter != c.queue || c.Client.May(access.Describe, access.Topic, name) != nil
	})
	return c.urls("queueUrls", names)
}

func (s *Server) deleteQueue(ctx context.Context, c *Call) (*Answer, error) {
	ctx, err := c.Client.Changing(ctx, access.Delete, c.queue)
	if err != nil {
		return nil, err
	}
	return c.empty(), s.o.Queues.Delete(ctx, c.queue)
}

// purgeEvery is how often a queue can be purged.
const purgeEvery = time.Minute

func (s *Server) purgeQueue(ctx context.Context, c *Call) (*Answer, error) {
	ctx, err := c.Client.Changing(ctx, access.Delete, c.queue)
	if err != nil {
		return nil, err
	}
	x, err := s.settings(c.queue)
	if err != nil {
		return nil, err
	}
	topic, _ := s.o.Broker.TopicNamed(c.queue)
	now := s.now()
	s.mu.Lock()
	maps.DeleteFunc(s.purged, func(_ record.ID, at time.Time) bool { return now.Sub(at) >= purgeEvery })
	_, again := s.purged[topic.ID]
	if !again {
		s.purged[topic.ID] = now
	}
	s.mu.Unlock()
	if again {
		return nil, newError(403, "PurgeQueueInProgress", "Only one PurgeQueue operation on %s is allowed every 60 seconds.", c.queue)
	}
	if _, err = s.o.Queues.Purge(ctx, c.queue); err == nil && x.isFIFO(c.queue) {
		err = s.forgetSent(ctx, c, x.kept)
	}
	if err != nil { // the client repeats it
		s.mu.Lock()
		delete(s.purged, topic.ID)
		s.mu.Unlock()
	}
	return c.empty(), err
}

// forgetSent lets dedup IDs of earlier messages not count any more.
func (s *Server) forgetSent(ctx context.Context, c *Call, k kept) error {
	k.Purges++
	text, err := k.text()
	if err != nil {
		return err
	}
	_, err = s.o.Queues.Update(ctx, c.queue, queue.Spec{Settings: map[string]string{"sqs": text}})
	return err
}

func (s *Server) getAttributes(_ context.Context, c *Call) (*Answer, error) {
	x, err := s.existing(c, access.Describe)
	if err != nil {
		return nil, err
	}
	all := slices.Contains(c.in.AttributeNames, "All")
	have := x.all(c, c.queue)
	info, err := s.o.Queues.Info(c.queue)
	if err != nil {
		return nil, err
	}
	have["ApproximateNumberOfMessages"] = strconv.FormatInt(info.Ready, 10)
	have["ApproximateNumberOfMessagesNotVisible"] = strconv.FormatInt(info.InFlight+info.Retrying+info.Dying, 10)
	have["ApproximateNumberOfMessagesDelayed"] = strconv.FormatInt(info.Delayed, 10)
	have["CreatedTimestamp"], have["LastModifiedTimestamp"] = strconv.FormatInt(x.Created, 10), strconv.FormatInt(x.Modified, 10)
	have["QueueArn"] = c.arn(c.queue)
	out := map[string]string{}
	for _, name := range c.in.AttributeNames {
		_, settable := attributes[name]
		if name != "All" && name != attrRedrive && !settable && !slices.Contains(counted, name) {
			return nil, refuse("InvalidAttributeName", "Unknown Attribute %.80s.", name)
		}
		if v, ok := have[name]; ok {
			out[name] = v
		}
	}
	if all {
		out = have
	}
	return c.answer(func(o *output) { o.pairs("Attributes", "Attribute", "Name", out) }), nil
}

func (s *Server) setAttributes(ctx context.Context, c *Call) (*Answer, error) {
	if len(c.in.Attributes) == 0 {
		return nil, errMissing("Attributes")
	}
	return s.changeKept(ctx, c, func(x *settings, k *kept) (map[string]string, error) {
		fifo := x.isFIFO(c.queue)
		if v, given := c.in.Attributes[attrFIFO]; given {
			if fifo && v == "true" {
				delete(c.in.Attributes, attrFIFO)
			} else if fifo || !fifo && v == "" {
				return nil, refuse("InvalidAttributeValue", "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.")
			}
		}
		return k.change(c.in.Attributes, fifo, s.deadLetter(fifo))
	})
}

// changeKept changes what the setting sqs keeps, and the settings that change returns.
func (s *Server) changeKept(ctx context.Context, c *Call, change func(*settings, *kept) (map[string]string, error)) (*Answer, error) {
	x, err := s.existing(c, access.AlterConfigs)
	if err != nil {
		return nil, err
	}
	k := x.kept
	k.Attributes, k.Tags, k.Modified = maps.Clone(k.Attributes), maps.Clone(k.Tags), s.now().Unix()
	set, err := change(x, &k)
	if err != nil {
		return nil, err
	}
	if set == nil {
		set = map[string]string{}
	}
	if set["sqs"], err = k.text(); err != nil {
		return nil, err
	}
	return c.empty(), c.Client.Update(ctx, c.queue, queue.Spec{Settings: set})
}

func (c *Call) checkTags(tags map[string]string) error {
	if len(tags) > tagsMax {
		return errValue("Too many tags added for queue %s.", c.queue)
	}
	for k, v := range tags { //tidy:unordered any invalid one is named
		if k == "" || len(k) > 128 || len(v) > 256 {
			return errValue("Tag keys must be between 1 and 128 characters in length, and values up to 256.")
		}
	}
	return nil
}

func (s *Server) listTags(_ context.Context, c *Call) (*Answer, error) {
	x, err := s.existing(c, access.Describe)
	if err != nil {
		return nil, err
	}
	return c.answer(func(o *output) { o.pairs("Tags", "Tag", "Key", x.Tags) }), nil
}

func (s *Server) tag(ctx context.Context, c *Call) (*Answer, error) {
	if len(c.in.Tags) == 0 {
		return nil, errMissing("Tags")
	}
	return s.changeKept(ctx, c, func(_ *settings, k *kept) (map[string]string, error) {
		if k.Tags == nil {
			k.Tags = map[string]string{}
		}
		maps.Copy(k.Tags, c.in.Tags)
		return nil, c.checkTags(k.Tags)
	})
}

func (s *Server) untag(ctx context.Context, c *Call) (*Answer, error) {
	if len(c.in.TagKeys) == 0 {
		return nil, errMissing("TagKeys")
	}
	return s.changeKept(ctx, c, func(_ *settings, k *kept) (map[string]string, error) {
		for _, key := range c.in.TagKeys {
			delete(k.Tags, key)
		}
		return nil, nil
	})
}
