"""Logs of AWS Application Load Balancers."""

from tidemark.parse.formats.aws_elb import COMPOSE, refined
from tidemark.parse.layout import Layout

FORMAT = Layout(
    name="aws_alb",
    about="AWS Application Load Balancer.",
    docs="https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-access-logs.html",
    examples=(
        "https 2026-11-21T10:00:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 203.0.113.7:2817 10.0.0.1:80"
        " 0.086 0.048"
        ' 0.037 200 200 0 512 "GET https://www.example.org:443/docs/?page=2 HTTP/1.1" "curl/8.5.0"'
        " ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/web/1"
        ' "Root=1-58337281-1d84f3d73c47ec4e58577259" "www.example.org" "-" 1 2026-11-21T09:59:59.000000Z "forward" "-"'
        ' "-" "10.0.0.1:80" "200" "-" "-"',
    ),
    pattern=r"^(?:https?|h2|grpcs?|wss?) \d{4}-\d\d-\d\dT",
    layouts=(
        "$_type $time $_balancer $client_ip $_target $request_time $target_time $response_time $status"
        " $_target_status $_received"
        ' $bytes "$request" "$user_agent"$_rest',
    ),
    refine=refined,
    compose=COMPOSE,
)
