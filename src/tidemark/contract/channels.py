"""The marketing channels of requests and sessions, in the order in which their rules are tried."""

INTERNAL, REFERRAL, DIRECT = "internal", "referral", "direct"

CHANNELS = (
    "cross-network", "paid shopping", "paid search", "paid social", "paid video", "display", "paid other",
    "organic shopping", "organic social", "organic video", "ai assistants", "organic search", "email", "affiliates",
    "audio", "sms", "mobile push", INTERNAL, REFERRAL, DIRECT,
)  # fmt: skip
