"""What ddprun pushes to, for push_test.cpp: prints a line of JSON for every request that it has taken.

push_receiver.py otlp|kubeflow [--status=N] [--retry-after=S] [--silent] [--cert=FILE --key=FILE]

An OTLP request is read with OpenTelemetry's own protobuf, in which no unknown field is allowed; one of Kubeflow with the
models of kubeflow-trainer-api.
"""

import argparse
import http.server
import json
import ssl
import time

parser = argparse.ArgumentParser()
parser.add_argument("kind", choices=["otlp", "kubeflow"])
parser.add_argument("--status", type=int, default=200)
parser.add_argument("--retry-after")
parser.add_argument("--silent", action="store_true")
parser.add_argument("--cert")
parser.add_argument("--key")
options = parser.parse_args()
# Before it listens: they take a second to load, and who pushes does not wait for long.
if options.kind == "otlp":
    from google.protobuf import json_format
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
else:
    from kubeflow_trainer_api.models import TrainerV1alpha1UpdateTrainJobStatusRequest


def points_of(metric):
    data = getattr(metric, metric.WhichOneof("data"))
    return data, data.data_points


def read_otlp(body):
    request = json_format.Parse(body, ExportMetricsServiceRequest(), ignore_unknown_fields=False)
    (of_resource,) = request.resource_metrics
    (of_scope,) = of_resource.scope_metrics
    out = {a.key: a.value.string_value for a in of_resource.resource.attributes}
    metrics = {}
    now = time.time_ns()
    for metric in of_scope.metrics:
        data, points = points_of(metric)
        kind = metric.WhichOneof("data")
        assert points, metric.name
        assert metric.name not in metrics, metric.name
        assert not metric.name.endswith("_total"), metric.name
        for point in points:
            assert abs(point.time_unix_nano - now) < 600e9, metric.name
            if kind != "gauge":
                assert data.aggregation_temporality == 2, metric.name
                assert 0 < point.start_time_unix_nano <= point.time_unix_nano, metric.name
            if kind == "sum":
                assert data.is_monotonic, metric.name
            if kind == "histogram":
                assert len(point.bucket_counts) == len(point.explicit_bounds) + 1, metric.name
                assert sum(point.bucket_counts) == point.count, metric.name
        metrics[metric.name] = {
            "kind": kind,
            "unit": metric.unit,
            "points": [
                {
                    "attributes": {a.key: a.value.string_value for a in point.attributes},
                    "value": point.sum if kind == "histogram" else point.as_double,
                    "count": point.count if kind == "histogram" else 1,
                }
                for point in points
            ],
        }
    return {"resource": out, "scope": of_scope.scope.name, "metrics": metrics}


def read_kubeflow(body):
    status = TrainerV1alpha1UpdateTrainJobStatusRequest.from_json(body).trainer_status
    assert status.last_updated_time
    return json.loads(body)["trainerStatus"]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if options.silent:
            print(json.dumps({"silent": True}), flush=True)
            time.sleep(600)
        assert self.headers["Content-Type"] == "application/json"
        read = read_otlp(body) if options.kind == "otlp" else read_kubeflow(body)
        read["path"] = self.path
        read["headers"] = {name.lower(): value for name, value in self.headers.items()}
        print(json.dumps(read), flush=True)
        self.send_response(options.status)
        if options.retry_after:
            self.send_header("Retry-After", options.retry_after)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
if options.cert:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(options.cert, options.key)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
print(f"listens on {server.server_address[1]}", flush=True)
server.serve_forever()
