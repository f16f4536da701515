#!/usr/bin/env python3
"""The manifests of scripts/schedulers/kubernetes, and those that `ddprun submit` makes (the golden files of tests/launcher),
against the schemas: manifests_test.py DDPRUN

Kubernetes' own kinds against the schemas in kubernetes-validate; JobSet, TrainingRuntime and TrainJob against the classes of
Kubeflow Trainer's package, which are made from the types of both projects. Their commands run with --dry-run.
"""
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

import kubernetes_validate
import yaml
from kubeflow_trainer_api.models.jobset_v1alpha2_job_set import JobsetV1alpha2JobSet
from kubeflow_trainer_api.models.trainer_v1alpha1_train_job import TrainerV1alpha1TrainJob
from kubeflow_trainer_api.models.trainer_v1alpha1_training_runtime import TrainerV1alpha1TrainingRuntime

DDPRUN = Path(sys.argv.pop()).resolve()
SOURCE = Path(__file__).resolve().parents[2]
FOLDER = SOURCE / "scripts/schedulers/kubernetes"
MADE = sorted((SOURCE / "tests/launcher/testdata/places").glob("*.yaml"))  # by `ddprun submit`
KUBERNETES = "1.37"
CUSTOM = {"JobSet": JobsetV1alpha2JobSet, "TrainJob": TrainerV1alpha1TrainJob, "TrainingRuntime": TrainerV1alpha1TrainingRuntime}
STOP_GRACE_S, OWN_S = 25, 5
FINAL, REQUEUE = {2, 73, 93}, {75}


def read(name: str) -> list[dict]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def made(*kinds: str) -> list[dict]:
    return [manifest for file in MADE for manifest in yaml.safe_load_all(file.read_text()) if manifest["kind"] in kinds]


def job_of(manifest: dict) -> dict:
    """The spec of the Job in it."""
    if manifest["kind"] == "Job":
        return manifest["spec"]
    jobset = manifest["spec"]["template"]["spec"] if manifest["kind"] == "TrainingRuntime" else manifest["spec"]
    return jobset["replicatedJobs"][0]["template"]["spec"]


def manifests(*kinds: str) -> list[dict]:
    return [manifest for file in sorted(FOLDER.glob("*.yaml")) for manifest in read(file.name) if manifest["kind"] in kinds]


def check_job_in(manifest: dict) -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "in-it"}, "spec": job_of(manifest)}
    kubernetes_validate.validate(job, KUBERNETES, strict=True)


def check_custom(manifest: dict) -> None:
    """As the project's types read it, nothing of it is left out or changed."""
    there = CUSTOM[manifest["kind"]].from_dict(manifest).to_dict()
    if there != manifest:
        raise AssertionError(f"{manifest['kind']}: {manifest} is read as {there}")


def settings(command: list[str], env: dict[str, str]) -> dict[str, str]:
    """What ddprun would do in a pod, once it has accepted the command."""
    words = [re.sub(r"\$\((\w+)\)", lambda name: env[name[1]], word) for word in command]
    token = {"DDPRUN_TOKEN": "0123456789abcdef" * 4}
    for option in "--dry-run", "--print-config":
        ran = subprocess.run([DDPRUN, option, *words[1:]], env=os.environ | token | env, capture_output=True, text=True)
        if ran.returncode != 0 or words[0] != "ddprun":
            raise AssertionError(f"{words} ended with {ran.returncode}: {ran.stderr}")
    return dict(re.findall(r"^([a-z-]+) = (.*?) +#", ran.stdout, re.M))


class Manifests(unittest.TestCase):
    def test_kubernetes_takes_them(self):
        for manifest in manifests("Service", "Job"):
            kubernetes_validate.validate(manifest, KUBERNETES, strict=True)

    def test_jobset_and_kubeflow_trainer_take_theirs_and_kubernetes_the_job_in_them(self):
        for manifest in manifests(*CUSTOM):
            check_custom(manifest)
            if manifest["kind"] != "TrainJob":
                check_job_in(manifest)

    def test_a_wrong_field_is_found(self):
        for kind, field in ("Job", "completionmode"), ("JobSet", "failurePolicies"), ("TrainJob", "runtime"):
            manifest = manifests(kind)[0]
            manifest["spec"][field] = {}
            with self.assertRaises((AssertionError, kubernetes_validate.ValidationError)):
                check_custom(manifest) if kind in CUSTOM else kubernetes_validate.validate(manifest, KUBERNETES, strict=True)

    def test_a_pod_has_more_time_than_ddprun_needs(self):
        for manifest in manifests("Job", "JobSet", "TrainingRuntime"):
            self.assertGreater(job_of(manifest)["template"]["spec"]["terminationGracePeriodSeconds"], STOP_GRACE_S + OWN_S)

    def test_the_codes_decide_what_happens(self):
        [job] = manifests("Job")
        [final, requeue] = [rule for rule in job["spec"]["podFailurePolicy"]["rules"] if "onExitCodes" in rule]
        self.assertEqual((final["action"], set(final["onExitCodes"]["values"])), ("FailJob", FINAL))
        self.assertEqual((requeue["action"], set(requeue["onExitCodes"]["values"])), ("Ignore", REQUEUE))

    def test_the_codes_reach_the_rules_of_a_jobset(self):
        for manifest in manifests("JobSet", "TrainingRuntime"):
            rules = (manifest["spec"].get("template", manifest)["spec"])["failurePolicy"]["rules"]
            rule = job_of(manifest)["podFailurePolicy"]["rules"][0]
            self.assertEqual(set(rule["onExitCodes"]["values"]), FINAL | REQUEUE)
            for code in FINAL | REQUEUE:
                # What the Job controller writes.
                message = f"Container ddprun for pod default/train-0-x failed with exit code {code} matching FailJob rule at index 0"
                matching = [rule["action"] for rule in rules
                            if any(re.search(p, message) for p in rule.get("onJobFailureMessagePatterns", [""]))]
                self.assertEqual(matching[0], "FailJobSet" if code in FINAL else "RestartJobSetAndIgnoreMaxRestarts")

    def test_rules_name_the_container(self):
        for manifest in manifests("Job", "JobSet", "TrainingRuntime"):
            job = job_of(manifest)
            names = {container["name"] for container in job["template"]["spec"]["containers"]}
            for rule in job["podFailurePolicy"]["rules"]:
                self.assertIn(rule.get("onExitCodes", {}).get("containerName", *names), names)

    def test_each_pod_is_a_node_of_the_job(self):
        for manifest in manifests("Job", "JobSet"):
            [container] = job_of(manifest)["template"]["spec"]["containers"]
            for index in "0", "1":
                there = settings(container["args"], {"JOB_COMPLETION_INDEX": index})
                self.assertEqual((there["nnodes"], there["node-rank"], there["nproc-per-node"]), ("2", index, "2"))

    def test_a_trainjob_tells_ddprun_all_by_its_environment(self):
        trainer = manifests("TrainJob")[0]["spec"]["trainer"]
        for index in "0", "1":
            there = settings(trainer["command"] + trainer["args"], {
                "PET_NNODES": str(trainer["numNodes"]), "PET_NPROC_PER_NODE": str(trainer["numProcPerNode"]), "PET_NODE_RANK": index,
                "PET_MASTER_ADDR": "train-node-0-0.train", "PET_MASTER_PORT": "29500"})
            self.assertEqual((there["nnodes"], there["node-rank"], there["nproc-per-node"]), ("2", index, "2"))


class MadeManifests(unittest.TestCase):
    """Those that `ddprun submit --to k8s` makes."""

    def test_kubernetes_takes_them(self):
        for manifest in made("Secret", "ConfigMap", "Service", "Job"):
            kubernetes_validate.validate(manifest, KUBERNETES, strict=True)

    def test_kubernetes_takes_what_the_example_makes(self):
        example = SOURCE / "examples/kubernetes/job.toml"
        printed = subprocess.run([DDPRUN, "submit", "--to", "k8s", "--dry-run", example], capture_output=True, text=True, check=True).stdout
        manifests = list(yaml.safe_load_all(printed))
        self.assertEqual([manifest["kind"] for manifest in manifests], ["Secret", "ConfigMap", "Service", "Job"])
        for manifest in manifests:
            kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
        self.assertEqual((manifests[3]["spec"]["completions"], manifests[1]["data"]["job.toml"]), (2, example.read_text()))

    def test_each_pod_accepts_the_file_of_a_job_of_several(self):
        words = [DDPRUN, "run", SOURCE / "examples/kubernetes/job.toml", "--set", f"source_dir={SOURCE}", "--dry-run"]
        ran = subprocess.run(words, env=os.environ | {"JOB_COMPLETION_INDEX": "1"}, capture_output=True, text=True)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))

    def test_jobset_takes_its_own_and_kubernetes_the_job_in_it(self):
        for manifest in made("JobSet"):
            check_custom(manifest)
            check_job_in(manifest)

    def test_the_job_file_arrives_byte_for_byte(self):
        texts = {manifest["data"]["job.toml"] for manifest in made("ConfigMap")}
        self.assertIn('name = "digits"\nprogram = ["train", "20"]\nnnodes = 2\n\n'
                      '[kubernetes]\n  image = "ddprun"  # ours\n', texts)
        self.assertIn('note = "no line end, and a tab\tand é"', texts)

    def test_names_and_rules_agree(self):
        for file in MADE:
            manifests = list(yaml.safe_load_all(file.read_text()))
            [name] = {manifest["metadata"]["name"] for manifest in manifests}
            job = job_of(manifests[-1])
            spec = job["template"]["spec"]
            [container] = spec["containers"]
            self.assertEqual(spec["volumes"][0]["configMap"]["name"], name)
            self.assertGreater(spec["terminationGracePeriodSeconds"], STOP_GRACE_S + OWN_S)
            for rule in job["podFailurePolicy"]["rules"]:
                self.assertEqual(rule.get("onExitCodes", {}).get("containerName", "ddprun"), container["name"])
            for variable in container["env"]:
                source = variable.get("valueFrom", {"secretKeyRef": {"name": name}})
                self.assertEqual(source["secretKeyRef"]["name"], name)
            service = [manifest for manifest in manifests if manifest["kind"] == "Service"]
            if service:
                self.assertEqual((spec["subdomain"], service[0]["spec"]["clusterIP"]), (name, "None"))
                self.assertLessEqual(service[0]["spec"]["selector"].items(), job["template"]["metadata"]["labels"].items())

    def test_the_rules_are_those_of_the_scripts(self):
        [job], [jobset] = manifests("Job"), manifests("JobSet")
        for manifest in made("Job"):
            self.assertEqual(manifest["spec"]["podFailurePolicy"], job["spec"]["podFailurePolicy"])
        for manifest in made("JobSet"):
            self.assertEqual(job_of(manifest)["podFailurePolicy"], job_of(jobset)["podFailurePolicy"])
            rules = {rule["name"]: rule for rule in manifest["spec"]["failurePolicy"]["rules"]}
            self.assertEqual([rules["final"], rules["preempted"]], jobset["spec"]["failurePolicy"]["rules"])

    def test_arguments_stay_as_they_are(self):
        [manifest] = [manifest for manifest in made("Job") if manifest["metadata"].get("namespace") == "training"]
        command = job_of(manifest)["template"]["spec"]["containers"][0]["command"]
        words = [word.replace("$$", "$") for word in command]  # as Kubernetes does it
        self.assertEqual(words[:4], ["ddprun", "run", "/etc/ddprun-job/job.toml", "--set"])
        self.assertIn('hyperparameters.note="$(HOME) costs $5"', words)
        self.assertEqual(words[-1], "source_dir=/data/my job/src")


if __name__ == "__main__":
    unittest.main()
