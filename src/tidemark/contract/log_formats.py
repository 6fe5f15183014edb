"""The names of the log formats, as the header `format` and the option `--format` have them.

Each has a module of its name in `tidemark.parse.formats`. Where lines could be of several, the first one here is taken.
"""

# Increment when a reader of lines gives another result. Readers are code, so no hash stands for them. It is part of
# `rules_version` in silver.requests.
VERSION = 6

FORMATS = (
    "combined", "common", "vhost_combined",
    "caddy_json", "caddy_console", "traefik_json", "gcp_lb_json", "cloudflare_json", "azure_json", "fastly_json",
    "nginx_json", "apache_json",
    "traefik_clf", "nginx_ingress", "nginx_proxy_manager", "npmplus", "zoraxy", "haproxy_http", "haproxy_clf", "envoy",
    "iis_w3c", "w3c_extended", "iis_native", "aws_alb", "aws_elb", "aws_s3", "cloudfront", "squid", "gandi",
    "ovh", "varnishncsa", "icecast",
)  # fmt: skip
