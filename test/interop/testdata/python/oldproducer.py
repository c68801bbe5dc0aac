"""A transactional producer with a librdkafka that is older than any program here: by its functions."""

from ctypes import CDLL, POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p, create_string_buffer

from confluent_kafka import KafkaException

PRODUCER, COPY = 0, 2


class Part(Structure):
    """rd_kafka_topic_partition_t"""

    _fields_ = [
        ("topic", c_char_p),
        ("partition", c_int32),
        ("offset", c_int64),
        ("metadata", c_void_p),
        ("metadata_size", c_size_t),
        ("opaque", c_void_p),
        ("err", c_int),
        ("private", c_void_p),
    ]


class Fault:
    """What KafkaException has as its argument."""

    def __init__(self, code, text, fatal):
        self._code, self._text, self._fatal = code, text, fatal

    def code(self):
        return self._code

    def fatal(self):
        return self._fatal

    def __repr__(self):
        return f"{self._code}: {self._text}"


class OldProducer:
    """The methods of confluent_kafka.Producer that the test uses."""

    def __init__(self, path, settings):
        self._lib = CDLL(path)
        fault = create_string_buffer(512)
        conf = self._call("conf_new", c_void_p)()
        conf_set = self._call("conf_set", c_int, c_void_p, c_char_p, c_char_p, c_char_p, c_size_t)
        for name, value in settings.items():
            if conf_set(conf, name.encode(), str(value).encode(), fault, len(fault)) != 0:
                raise AssertionError(fault.value)
        self._rk = self._call("new", c_void_p, c_int, c_void_p, c_char_p, c_size_t)(PRODUCER, conf, fault, len(fault))
        if not self._rk:
            raise AssertionError(fault.value)
        self._topics = {}

    def _call(self, name, result, *arguments):
        f = getattr(self._lib, "rd_kafka_" + name)
        f.restype, f.argtypes = result, arguments
        return f

    def _must(self, error):
        if not error:
            return
        code = self._call("error_code", c_int, c_void_p)(error)
        text = self._call("error_string", c_char_p, c_void_p)(error).decode()
        fatal = bool(self._call("error_is_fatal", c_int, c_void_p)(error))
        raise KafkaException(Fault(code, text, fatal))

    def init_transactions(self, timeout):
        self._must(self._call("init_transactions", c_void_p, c_void_p, c_int)(self._rk, timeout * 1000))

    def begin_transaction(self):
        self._must(self._call("begin_transaction", c_void_p, c_void_p)(self._rk))

    def commit_transaction(self, timeout):
        self._must(self._call("commit_transaction", c_void_p, c_void_p, c_int)(self._rk, timeout * 1000))

    def abort_transaction(self, timeout):
        self._must(self._call("abort_transaction", c_void_p, c_void_p, c_int)(self._rk, timeout * 1000))

    def flush(self, timeout):
        self._call("flush", c_int, c_void_p, c_int)(self._rk, timeout * 1000)
        return self._call("outq_len", c_int, c_void_p)(self._rk)

    def produce(self, topic, value, partition):
        if topic not in self._topics:
            self._topics[topic] = self._call("topic_new", c_void_p, c_void_p, c_char_p, c_void_p)(self._rk, topic.encode(), None)
        value = value.encode() if isinstance(value, str) else value
        produce = self._call("produce", c_int, c_void_p, c_int32, c_int, c_char_p, c_size_t, c_char_p, c_size_t, c_void_p)
        if produce(self._topics[topic], partition, COPY, value, len(value), None, 0, None) != 0:
            raise AssertionError("the record is not accepted")

    def send_offsets_to_transaction(self, offsets, metadata, timeout):
        """metadata is the name of the group: without a member, as before KIP-447."""
        list = self._call("topic_partition_list_new", c_void_p, c_int)(len(offsets))
        add = self._call("topic_partition_list_add", POINTER(Part), c_void_p, c_char_p, c_int32)
        for o in offsets:
            add(list, o.topic.encode(), o.partition).contents.offset = o.offset
        known = self._call("consumer_group_metadata_new", c_void_p, c_char_p)(metadata.encode())
        self._must(self._call("send_offsets_to_transaction", c_void_p, c_void_p, c_void_p, c_void_p, c_int)(self._rk, list, known, timeout * 1000))
