"""The log of Nginx Proxy Manager."""

from tidemark.parse.layout import Layout

FORMAT = Layout(
    name="nginx_proxy_manager",
    about="Nginx Proxy Manager, proxy hosts and others.",
    docs="https://github.com/NginxProxyManager/nginx-proxy-manager/tree/develop/docker/rootfs/etc/nginx/conf.d/include",
    examples=(
        '[21/Nov/2026:10:00:00 +0000] - 200 200 - GET https www.example.org "/docs/?page=2" [Client 203.0.113.7]'
        ' [Length 512] [Gzip -] [Sent-to 10.0.0.4] "curl/8.5.0" "https://example.org/a"',
        '[21/Nov/2026:10:00:00 +0000] 404 - GET https www.example.org "/docs/" [Client 203.0.113.7] [Length 146]'
        ' [Gzip -] "curl/8.5.0" "-"',
    ),
    pattern=r"^\[[^\]]*\] .* \[Client [^\]]*\] \[Length ",
    layouts=(
        '[$time] $_cache $_upstream $status - $method $_scheme $host "$target" [Client $client_ip] [Length $bytes]'
        ' [Gzip $_gzip] $_server"$user_agent" "$referrer"',
        '[$time] $status - $method $_scheme $host "$target" [Client $client_ip] [Length $bytes] [Gzip $_gzip]'
        ' $_server"$user_agent" "$referrer"',
    ),
)
