"""Prometheus metrics of all layers. Counted per batch, never per message."""

from prometheus_client import Counter, Gauge, Histogram

_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)

MESSAGES = Counter("braid_messages_total", "Messages handled", ["layer", "message"])
HANDLING_SECONDS = Histogram(
    "braid_handling_seconds",
    "Time a layer took for one batch of one kind of message",
    ["layer", "message"],
    buckets=_SECONDS,
)
BATCH_SIZE = Histogram("braid_batch_messages", "Messages handled as one batch", ["layer", "message"], buckets=_SIZES)
MESSAGES_DROPPED = Counter(
    "braid_messages_dropped_total", "Messages not handled; retries make up for them", ["layer", "reason"]
)
STALE = Gauge("braid_stale_epoch_messages", "Messages of another epoch, dropped since start", ["layer"])
ORDER_VIOLATIONS = Gauge(
    "braid_order_violations", "Messages that came on the wrong side of the cut of a scaling, since start", ["layer"]
)
CALLS_KEPT_BACK = Gauge("braid_calls_kept_back", "Calls about subscriptions that wait for the end of a scaling")
BATCHES_HELD = Gauge("braid_batches_held", "Batches that wait for the cut of a scaling")
SCALING_DROPPED = Gauge("braid_scaling_dropped", "Calls and batches that found these buffers full, since start")
LEFT_EARLY = Gauge(
    "braid_left_early", "Scalings whose end an access point did not delay for a connection point, since start"
)
CALLS_OVERTAKEN = Gauge("braid_calls_overtaken", "Repeated calls about a subscription that a later one overtook")
ANCHORS = Gauge("braid_anchors", "Anchors that publications are routed by")
ANCHORS_REFUSED = Gauge("braid_anchors_refused", "Anchors that found the index of routes full, since start")
LINKS_LOST = Counter("braid_links_lost_total", "Links between slices that ended", ["layer"])
LINK_UNSENT_BYTES = Gauge("braid_link_unsent_bytes", "Bytes queued on all links of the slice", ["layer"])
BACKPRESSURE = Counter("braid_backpressure_total", "Times upstream links were no longer read", ["layer"])
EPOCH = Gauge("braid_epoch", "Epoch of the configuration in force", ["layer"])
DRAINING = Gauge("braid_draining", "Whether the slice was told to stop and lets others take over", ["layer"])
LOOP_LAG_SECONDS = Gauge("braid_loop_lag_seconds", "How late the last tick of the event loop was", ["layer"])
LONGEST_STEP_SECONDS = Gauge(
    "braid_longest_step_seconds",
    "Longest processor time that one step of the event loop took in the last 10 to 20 seconds",
    ["layer", "step"],
)

PUBLICATIONS_ACCEPTED = Counter("braid_publications_accepted_total", "Publications logged and acknowledged")
PUBLICATIONS_REFUSED = Counter("braid_publications_refused_total", "Publications refused", ["reason"])
PUBLICATIONS_AGAIN = Gauge("braid_publications_sent_again", "Publications sent again by the retry loop since start")
WINDOW_PUBLICATIONS = Gauge("braid_window_publications", "Accepted and not yet confirmed")
WINDOW_BYTES = Gauge("braid_window_bytes", "Bytes accepted and not yet confirmed")
CONFIRM_SECONDS = Histogram(
    "braid_confirm_seconds", "From acceptance to confirmation, the oldest batch of each confirmation", buckets=_SECONDS
)
KAFKA_SOURCE_RECORDS = Counter(
    "braid_kafka_source_records_total", "Records that were read, and what became of them", ["topic", "fate"]
)
KAFKA_SOURCE_LAG = Gauge(
    "braid_kafka_source_lag", "Records of the partitions read here that are not confirmed, as far as known", ["topic"]
)
KAFKA_SOURCE_PARTITIONS = Gauge("braid_kafka_source_partitions", "Partitions of source topics that are read here")
KAFKA_SOURCE_WINDOW = Gauge("braid_kafka_source_window", "Publications from Kafka that are sent and not confirmed")
KAFKA_SOURCE_AGAIN = Gauge("braid_kafka_source_sent_again", "Publications from Kafka sent again since start")
KAFKA_SOURCE_FAILURES = Counter("braid_kafka_source_failures_total", "Times that reading began anew after a failure")
KAFKA_SOURCE_LOST = Gauge("braid_kafka_source_lost", "Records that were deleted before they were read, since start")
KAFKA_SINK_RECORDS = Counter(
    "braid_kafka_sink_records_total", "Notifications for topics of Kafka, and what became of them", ["topic", "fate"]
)
KAFKA_SINK_WAITING = Gauge("braid_kafka_sink_waiting", "Notifications that wait for their topic", ["topic"])
KAFKA_SINK_BYTES = Gauge("braid_kafka_sink_bytes", "Bytes on disk that wait for topics")
KAFKA_SINK_FAILURES = Counter(
    "braid_kafka_sink_failures_total", "Times that writing to a topic began anew after a failure", ["topic"]
)
KAFKA_SINK_DELAY_SECONDS = Histogram(
    "braid_kafka_sink_delay_seconds", "From receipt to the topic, the oldest of each write", buckets=_SECONDS
)
INGRESS_WRITE_SECONDS = Histogram("braid_ingress_write_seconds", "Time one write to Kafka took", buckets=_SECONDS)
INGRESS_WRITES_FAILED = Gauge("braid_ingress_writes_failed", "Writes to Kafka that failed, since start")
INGRESS_WAITING = Gauge("braid_ingress_waiting", "Publications that wait for Kafka to have them")
INGRESS_BACKLOG = Gauge(
    "braid_ingress_backlog", "Batches in Kafka that are not known to be confirmed, of the partition with most of them"
)
INGRESS_PARTITIONS = Gauge("braid_ingress_partitions", "Partitions of the ingress topic that this slice sees to")
INGRESS_TAKEN_OVER = Gauge("braid_ingress_taken_over", "Partitions that fell to this slice, since start")
INGRESS_LOST_RECORDS = Gauge(
    "braid_ingress_lost_records",
    "Records of the ingress topic that were deleted before they were read, or could not be read, since start",
    ["why"],
)
NOTIFICATIONS_DELIVERED = Counter("braid_notifications_delivered_total", "Notifications put into outboxes")
NOTIFICATIONS_DROPPED = Counter("braid_notifications_dropped_total", "Notifications lost by a subscriber", ["reason"])
NOTIFICATIONS_REPEATED = Gauge("braid_notifications_repeated", "Notifications received again and dropped since start")
NOTIFICATIONS_STRAYED = Gauge(
    "braid_notifications_strayed",
    "Notifications delivered from here although their subscription has its address elsewhere, since start",
)
NOTIFICATIONS_UNCLAIMED = Gauge(
    "braid_notifications_unclaimed", "Notifications whose subscription had ended meanwhile, since start"
)
SUBSCRIBERS_DISCONNECTED = Counter("braid_subscribers_disconnected_total", "Subscribers disconnected", ["reason"])
OUTBOXES = Gauge("braid_outboxes", "Subscribers with an outbox")
OUTBOX_BYTES = Gauge("braid_outbox_bytes", "Bytes held for all subscribers")

WEBHOOK_ENDPOINTS = Gauge("braid_webhook_endpoints", "Subscriptions with a webhook, by the state of it", ["state"])
WEBHOOK_REQUESTS = Counter("braid_webhook_requests_total", "Attempts to post, by what was answered", ["answer"])
WEBHOOK_REQUEST_SECONDS = Histogram(
    "braid_webhook_request_seconds", "Time one attempt took, answered or not", buckets=_SECONDS
)
WEBHOOK_DELAY_SECONDS = Histogram(
    "braid_webhook_delay_seconds",
    "From when the oldest notification of a request came to when it had arrived",
    buckets=(*_SECONDS, 60, 600, 3600, 36000),
)
WEBHOOK_NOTIFICATIONS = Counter(
    "braid_webhook_notifications_total",
    "Notifications posted (delivered), given up (buried), or lost (dropped)",
    ["fate"],
)
WEBHOOK_WAITING = Gauge("braid_webhook_waiting", "Notifications that have not arrived, of all endpoints")
WEBHOOK_DEAD_LETTERS = Gauge("braid_webhook_dead_letters", "Notifications in dead letters, of all endpoints")
WEBHOOK_BYTES = Gauge("braid_webhook_bytes", "Bytes of both on disk")

SUBSCRIPTIONS = Gauge("braid_subscriptions", "Subscriptions held", ["layer"])
SUBSCRIPTIONS_REFUSED = Gauge(
    "braid_subscriptions_refused", "Subscriptions that found the index of the matcher full, since start"
)
INDEX_PROGRAMS = Gauge("braid_index_programs", "Different conjunctions that the subscriptions come to")
INDEX_KEYS = Gauge("braid_index_keys", "Different keys that subscriptions speak of, and nodes below them")
INDEX_POOL_BYTES = Gauge("braid_index_pool_bytes", "Bytes of programs, lists and bitmaps in the index")
INDEX_CANDIDATES = Gauge("braid_index_candidates", "Programs verified under anchors that hold several, since start")
TOPICS_REMEMBERED = Gauge("braid_topics_remembered", "Topics of whose latest publication something is kept for `prev`")
PREVIOUS_BYTES = Gauge("braid_previous_bytes", "Bytes of what is kept for `prev`")
TOPICS_FORGOTTEN = Gauge(
    "braid_topics_forgotten", "Topics of which nothing is kept for `prev` any more for want of room, since start"
)
SUBSCRIPTIONS_EXPIRED = Gauge(
    "braid_subscriptions_expired", "Subscriptions of a matcher whose window has passed, since start"
)
STORAGE_BYTES = Gauge("braid_storage_bytes", "Disk that a matcher's subscriptions and kept publications use")
STORAGE_TRASH_BYTES = Gauge(
    "braid_storage_trash_bytes", "Of these, what belongs to windows that went, and is still to be given back"
)
STORAGE_ENTRIES = Gauge(
    "braid_storage_entries", "Entries in the lists of a matcher on disk; expired ones until they go"
)
STORAGE_WAITING = Gauge("braid_storage_waiting", "What waits for a matcher's disk", ["line"])
STORAGE_WINDOWS_DROPPED = Gauge("braid_storage_windows_dropped", "Windows of expired records dropped, since start")
STORAGE_DAMAGES = Gauge("braid_storage_damages", "Damaged databases found and repaired, since start")
RECOVERY_SECONDS = Gauge(
    "braid_recovery_seconds", "How long a matcher took to find its subscriptions again at its start"
)
PUBLICATIONS_GIVEN_UP = Gauge(
    "braid_publications_given_up",
    "Entries of publications given up for room before they expired (evicted), records not kept at all (no room)",
    ["why"],
)
PUBLICATIONS_HANDED_OVER = Gauge(
    "braid_publications_handed_over",
    "Kept publications that belong to another matcher since a scaling: those that it has stored, since start (stored), "
    "those read and not known to be (left), those removed afterwards, since start (removed)",
    ["state"],
)
RELOCATING = Gauge(
    "braid_relocating", "Whether a matcher that stays is still handing over publications that belong to others"
)
GATHERS = Gauge("braid_gathers", "Batches being gathered or awaiting receipt")
GATHERS_DROPPED = Gauge("braid_gathers_dropped", "Batches let go at a bound of the exit point since start")
UNDELIVERABLE = Gauge("braid_undeliverable", "Notifications for connection points that are gone, since start")
UNREADABLE = Gauge("braid_unreadable_publications", "Contents that the matcher could not read, since start")
TELEMETRY_SAMPLES = Counter("braid_telemetry_samples_total", "Samples of this slice that were written", ["sink"])
TELEMETRY_DROPPED = Counter("braid_telemetry_dropped_total", "Samples dropped, or removed with their file", ["reason"])
TELEMETRY_FILE_BYTES = Gauge("braid_telemetry_file_bytes", "Bytes of the telemetry files of this slice")
